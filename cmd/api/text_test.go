package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

type row struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	At      string   `json:"at"`
	Meaning string   `json:"meaning"`
	Many    []string `json:"many"`
}

func shown(t *testing.T, result any) string {
	t.Helper()
	var text strings.Builder
	if err := printText(&text, result); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestTable_fits_a_terminal_whatever_is_in_it(t *testing.T) {
	t.Parallel()
	id := "msg_06gvp0mh69ccvvh87fajsvs18o"
	rows := []row{
		{ID: id, Name: strings.Repeat("ã", 200), Meaning: strings.Repeat("many words ", 30)},
		{ID: id, Name: "a", Meaning: strings.Repeat("x", 300), At: time.Now().UTC().Format(time.RFC3339Nano)},
	}
	text := shown(t, table{rows, aged(time.Now(), "id", "name", "at:AGE", "meaning")})
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > lineWidth {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	if strings.Count(text, id) != 2 || !strings.Contains(text, "…") || strings.Count(text, "many") < 30 {
		t.Errorf("an id or the last column is cut:\n%s", text)
	}
}

func TestTable_without_rows_says_so(t *testing.T) {
	t.Parallel()
	if text := shown(t, table{[]row{}, plain("id")}); text != "none\n" {
		t.Errorf("got %q", text)
	}
}

func TestPage_shows_members_then_lists_and_obeys_no_answer(t *testing.T) {
	t.Parallel()
	text := shown(t, page{map[string]any{
		"a_status": "dead", "b_at": "2026-11-21T05:09:54.094186Z", "c_none": nil,
		"d_attempts": []row{{ID: "1", Name: "\x1b[31mred\x07"}}, "e_requests": map[string]int{"failed": 2},
		"f_faults": []string{strings.Repeat("one two ", 20), "three"},
	}, map[string]columns{"d_attempts": plain("id:#", "name")}})
	want := `a_status  dead
b_at      2026-11-21 05:09:54 UTC
c_none    -

d_attempts
  #  NAME
  1   [31mred

e_requests
  failed  2

f_faults
  one two one two one two one two one two one two one two one two one two one
    two one two one two one two one two one two one two one two one two one two
    one two
  three
`
	if normal := strings.ReplaceAll(text, " \n", "\n"); normal != want {
		t.Errorf("got\n%s", normal)
	}
}

func TestDidYouMean_names_what_is_near(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{"delivred": ": did you mean delivered?", "ded": ": did you mean dead?",
		"p": ": did you mean pending?", "lost": ""} {
		if got := didYouMean(typed, "pending", "delivered", "dead", "failed"); got != want {
			t.Errorf("%s: %q", typed, got)
		}
	}
}

func TestRun_suggests_commands_flags_and_values_and_exits_2(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"serv": "serve", "delivery lst": "list", "tracker client creat": "create", "suplier": "supplier",
		"delivery list --stauts dead": "status", "delivery list --status ded": "dead",
		"supplier update sup_x": "nothing to change", "rate set road": "nothing to change",
		"delivery redeliver": "nothing to redeliver", "delivery redeliver a --status dead": "not both",
	} {
		var out, errOut strings.Builder
		if code := run(t.Context(), strings.Fields(command), &out, &errOut); code != exitUsage || out.Len() > 0 ||
			!strings.Contains(errOut.String(), want) {
			t.Errorf("%s: exit code %d, %q, %q", command, code, &out, &errOut)
		}
	}
}

func TestNegativeValues_of_a_setting_are_no_flags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"settings set k -1 -o json": "settings set k -o json -- -1", "settings set k 5": "settings set k 5",
		"delivery list -1": "delivery list -1",
	} {
		if got := strings.Join(negativeValues(strings.Fields(args)), " "); got != want {
			t.Errorf("%s: %s", args, got)
		}
	}
}
