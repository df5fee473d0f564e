package fetch_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

func object(t *testing.T, text string) (o fetch.Object) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestObject_a_number_is_taken_however_it_is_written(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{`7`: 7, `"7"`: 7, `" 7 "`: 7, `61.5`: 61, `7.0`: 7, `7e1`: 70, `-3`: -3,
		`9223372036854775807`: 9223372036854775807} {
		if n, known := object(t, `{"n":`+text+`}`).Int("n"); n != want || !known {
			t.Errorf("%s: %d, %v", text, n, known)
		}
	}
	for _, text := range []string{`null`, `"x"`, `""`, `[]`, `{}`, `true`, `9223372036854775808`, `1e300`, `"NaN"`} {
		if n, known := object(t, `{"n":`+text+`}`).Int("n"); n != 0 || known {
			t.Errorf("%s: %d, %v", text, n, known)
		}
	}
}

func TestObject_members_of_another_type_are_missing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{}`, `{"m":null}`, `{"m":[]}`, `{"m":true}`, `{"m":[null,1,"x"]}`} {
		o := object(t, text)
		if o.Text("m") != "" || o.Member("m").Member("x").Text("y") != "" || len(o.List("m")) != 0 {
			t.Errorf("%s: %v", text, o)
		}
	}
	if o := object(t, `{"m":[{"n":1},null,[],{"n":2}],"t":31}`); len(o.List("m")) != 2 || o.Text("t") != "31" ||
		o.True("t") {
		t.Errorf("got %v", o)
	}
}

func TestObject_texts_are_cut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{strings.Repeat("x", 500): 500, strings.Repeat("x", 501): 500,
		"x" + strings.Repeat("é", 500): 499, strings.Repeat(" ", 600) + "x": 1} {
		if got := object(t, `{"t":"`+text+`"}`).Text("t"); len(got) != want {
			t.Errorf("of %d bytes %d are taken, want %d", len(text), len(got), want)
		}
	}
	if got := object(t, `{"t":`+strings.Repeat("7", 501)+`}`).Text("t"); len(got) != 500 {
		t.Errorf("of a number of 501 digits %d are taken", len(got))
	}
}
