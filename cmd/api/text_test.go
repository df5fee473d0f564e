package main

import (
	"strings"
	"testing"
	"time"
)

type row struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	At      string   `json:"at"`
	Meaning string   `json:"meaning"`
	Other   string   `json:"other_id"`
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

func TestTable_is_whole_with_a_line_for_each_row(t *testing.T) {
	t.Parallel()
	id := "msg_06gvp0mh69ccvvh87fajsvs18o"
	rows := []row{
		{ID: id, Name: strings.Repeat("ã", 200), Meaning: strings.Repeat("many words ", 30), Other: id},
		{ID: id, Name: "a\x1b[2J\nb", Meaning: strings.Repeat("x", 300), At: time.Now().UTC().Format(time.RFC3339Nano)},
	}
	list := table{rows, aged(time.Now(), "other_id", "name", "id", "at:AGE", "meaning")}
	lines := strings.Split(shown(t, list), "\n")
	if len(lines) != 4 || !strings.Contains(lines[1], rows[0].Name) ||
		!strings.HasSuffix(lines[2], rows[1].Meaning) || !strings.Contains(lines[2], `a\u001b[2J b`) {
		t.Errorf("got\n%s", strings.Join(lines, "\n"))
	}
}

func TestList_of_more_rows_than_a_part_has_its_titles_once(t *testing.T) {
	t.Parallel()
	rows := make([]row, 2*listPart)
	if text := shown(t, table{rows, plain("id", "name")}); strings.Count(text, "ID") != 1 ||
		strings.Count(text, "\n") != len(rows)+1 {
		t.Errorf("%d lines, %d times the titles", strings.Count(text, "\n"), strings.Count(text, "ID"))
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
		"f_faults": []string{"one two", "three"},
	}, map[string]columns{"d_attempts": plain("id:#", "name")}})
	want := `a_status  dead
b_at      2026-11-21 05:09:54 UTC
c_none    -

d_attempts
  #  NAME
  1  \u001b[31mred\u0007

e_requests
  failed  2

f_faults
  one two
  three
`
	if normal := strings.ReplaceAll(text, " \n", "\n"); normal != want {
		t.Errorf("got\n%s", normal)
	}
}

func TestNegativeValues_of_a_setting_or_a_request_are_no_flags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"settings set k -1 -o json": "settings set k -o json -- -1", "settings set k 5": "settings set k 5",
		"delivery list -1": "delivery list -1", "request show Acme -5": "request show Acme -- -5",
		"request reopen -o json Acme -5":       "request reopen -o json Acme -- -5",
		"-o json request show Acme -5":         "-o json request show Acme -- -5",
		"--output json settings set k -1":      "--output json settings set k -- -1",
		"-o json delivery list --limit -1":     "-o json delivery list --limit -1",
		"request list --limit -1":              "request list --limit -1",
		"request show Acme -- -5":              "request show Acme -- -5",
		"-1 request":                           "request -- -1",
		"-o json settings list --nonsense=-1x": "-o json settings list --nonsense=-1x",
	} {
		if got := strings.Join(negativeValues(strings.Fields(args)), " "); got != want {
			t.Errorf("%s: %s", args, got)
		}
	}
}

func TestRun_says_what_is_wrong_with_a_call_and_exits_2(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"serv": `unknown command "serv"`, "tracker client creat": `unknown command "creat"`,
		"delivery list --stauts dead": "delivery list [flags]", "delivery list --status ded": "dead",
		"supplier update sup_x": "nothing to change", "rate set road": "nothing to change",
		"delivery redeliver": "nothing to redeliver", "delivery redeliver a --status dead": "not both",
		"retention run --days 36501": "--days must be 1 to 36500", "retention run --days 0": "--days must be 1 to 36500",
		"delivery list --supplier=": "--supplier is given", "request list --supplier=": "--supplier is given",
		"delivery redeliver --status dead --supplier=": "--supplier is given", "delivery list --since=": "--since is given",
		"delivery redeliver --status dead --since=": "--since is given",
		"delivery list --since -1h":                 "--since must be", "request list --limit -1": "--limit",
	} {
		var out, errOut strings.Builder
		if code := run(t.Context(), strings.Fields(command), &out, &errOut); code != exitUsage || out.Len() > 0 ||
			!strings.Contains(errOut.String(), want) {
			t.Errorf("%s: exit code %d, %q, %q", command, code, &out, &errOut)
		}
	}
}
