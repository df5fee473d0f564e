package web

import (
	"encoding/json"
	"testing"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

func TestDecimals_are_short_and_in_the_reader_s_language(t *testing.T) {
	t.Parallel()
	english := &locale{printer: message.NewPrinter(language.BritishEnglish)}
	portuguese := &locale{printer: message.NewPrinter(language.BrazilianPortuguese)}
	for v, want := range map[float64][2]string{
		0: {"0", "0"}, 0.04: {"0.04", "0,04"}, 0.25: {"0.2", "0,2"}, 3: {"3", "3"}, 9.96: {"10.0", "10,0"},
		12.6:    {"13", "13"},
		1234567: {"1,234,567", "1.234.567"},
	} {
		if got := [2]string{english.decimal(v), portuguese.decimal(v)}; got != want {
			t.Errorf("%v is %v, want %v", v, got, want)
		}
	}
	if got := english.milliseconds(0); got != "< 1 ms" {
		t.Errorf("0 is %q", got)
	}
}

func TestStates_have_one_word_in_each_language_and_a_word_of_their_own(t *testing.T) {
	t.Parallel()
	content, err := embedded.ReadFile("pt.json")
	portuguese := map[string]string{}
	if err == nil {
		err = json.Unmarshal(content, &portuguese)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"enqueued", "estimated", "selected", "pending", "delivered", "dead", "failed",
		"undelivered", "active", "failing", "paused", "none", "true", "false", ""} {
		english := stateWord(state)
		if english == state || portuguese[english] == "" {
			t.Errorf("the state %q is %q, in Portuguese %q", state, english, portuguese[english])
		}
	}
	if word := stateWord("of a later version"); word != "of a later version" {
		t.Errorf("an unknown state is %q", word)
	}
}
