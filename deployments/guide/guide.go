// Package guide reads the commands of the guides, so that tests type them word by word.
package guide

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var fenced = regexp.MustCompile("(?ms)^```(?:sh)?\n(.*?)^```$")

// Blocks returns the blocks of commands below a heading of a document, up to the next heading.
func Blocks(tb testing.TB, document, heading string) (blocks []string) {
	tb.Helper()
	content, err := os.ReadFile(document)
	if err != nil {
		tb.Fatal(err)
	}
	section := regexp.MustCompile(`(?m)^#+ ` + regexp.QuoteMeta(heading) + `$`).FindIndex(content)
	if section == nil {
		tb.Fatalf("%s has no heading %q", document, heading)
	}
	text := string(content[section[1]:])
	if end := regexp.MustCompile(`(?m)^#+ `).FindStringIndex(outside(text)); end != nil {
		text = text[:end[0]]
	}
	for _, found := range fenced.FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, found[1])
	}
	if len(blocks) == 0 {
		tb.Fatalf("%s: there is no command below %q", document, heading)
	}
	return blocks
}

// outside returns the text with the lines of its blocks made empty: a comment of the shell is no heading.
func outside(text string) string {
	return fenced.ReplaceAllStringFunc(text, func(block string) string { return strings.Repeat(" ", len(block)) })
}
