// Package guide reads the commands of the guides, so that tests type them word by word.
package guide

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fenced  = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	heading = regexp.MustCompile(`(?m)^#+ `)
)

// Blocks returns the blocks of commands below a heading of a document, up to the next heading.
func Blocks(tb testing.TB, document, title string) []string {
	tb.Helper()
	return Fenced(tb, document, title, "", "sh")
}

// Fenced returns the blocks in one of the languages below a heading of a document, up to the next heading.
func Fenced(tb testing.TB, document, title string, languages ...string) (blocks []string) {
	tb.Helper()
	content, err := os.ReadFile(document)
	if err != nil {
		tb.Fatal(err)
	}
	section := regexp.MustCompile(`(?m)^#+ ` + regexp.QuoteMeta(title) + `$`).FindIndex(content)
	if section == nil {
		tb.Fatalf("%s has no heading %q", document, title)
	}
	text := string(content[section[1]:])
	if end := heading.FindStringIndex(outside(text)); end != nil {
		text = text[:end[0]]
	}
	for _, found := range fenced.FindAllStringSubmatch(text, -1) {
		if slices.Contains(languages, found[1]) {
			blocks = append(blocks, found[2])
		}
	}
	if len(blocks) == 0 {
		tb.Fatalf("%s: there is no block of %q below %q", document, languages, title)
	}
	return blocks
}

// outside returns the text with its blocks made empty: a comment of the shell is no heading.
func outside(text string) string {
	return fenced.ReplaceAllStringFunc(text, func(block string) string { return strings.Repeat(" ", len(block)) })
}
