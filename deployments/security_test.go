package deployments_test

import (
	"regexp"
	"strings"
	"testing"
)

// Each promise of SECURITY.md names tests that there are, in its table and below; a row without one promises nothing.
func TestSecurity_page_names_a_test_in_every_row_and_each_exists(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, file := range files(t) {
		if strings.HasSuffix(file, "_test.go") {
			for _, match := range function.FindAllSubmatch(read(t, file), -1) {
				there[string(match[1])] = true
			}
		}
	}
	page := string(read(t, "../SECURITY.md"))
	name := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	for _, match := range name.FindAllStringSubmatch(page, -1) {
		if !there[match[1]] {
			t.Errorf("there is no %s", match[1])
		}
	}
	_, table, _ := strings.Cut(page, "| From |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	if len(rows) < 12 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		if !name.MatchString(row) {
			t.Errorf("no test shows it: %s", row)
		}
	}
}
