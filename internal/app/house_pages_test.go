package app_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The most that ARCHITECTURE.md may be.
const (
	longestPage = 180 // lines
	mostWords   = 40  // of the glossary
)

// The parts of Mermaid that the pictures are written in. More is added here once it was seen rendered.
var (
	flowStep = regexp.MustCompile(`^  ` + flowNode + `( -->(\|[^|"]+\|)? ` + flowNode + `)+$`)
	message  = regexp.MustCompile(`^  \w+-?->>\w+: [^;#]+$`)
)

const flowNode = `\w+(\[\([^][(){}|"]+\)\]|\[[^][(){}|"]+\]|\{[^][(){}|"]+\})?`

func TestArchitecture_is_short_and_its_pictures_are_Mermaid(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(root + "/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if n := strings.Count(text, "\n"); n > longestPage {
		t.Errorf("it has %d lines, at most %d", n, longestPage)
	}
	_, words, found := strings.Cut(text, "\n## The words\n")
	words, _, closed := strings.Cut(words, "\n## ")
	if n := len(regexp.MustCompile(`(?m)^\| [^*|-][^|]*\| [^|]+\|$`).FindAllString(words, -1)) - 1; !found || !closed ||
		n < 1 || n > mostWords {
		t.Errorf("its glossary has %d words, at most %d", n, mostWords)
	}
	pictures := strings.Split(text, "```mermaid\n")[1:]
	if len(pictures) != 3 {
		t.Errorf("it has %d pictures, one for each of the three roads", len(pictures))
	}
	for _, picture := range pictures {
		picture, _, _ = strings.Cut(picture, "```")
		lines := strings.Split(strings.TrimSuffix(picture, "\n"), "\n")
		form := map[string]*regexp.Regexp{"flowchart LR": flowStep, "sequenceDiagram": message}[lines[0]]
		if form == nil || len(lines) == 1 {
			t.Errorf("a picture begins with %q", lines[0])
			continue
		}
		for _, line := range lines[1:] {
			if !form.MatchString(line) {
				t.Errorf("this line of a picture does not parse: %s", line)
			}
		}
	}
}
