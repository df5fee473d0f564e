package main

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// written finds commands of the api in documents: between backticks or tags, or as a line of a block. The name is
// behind a path, assignments, what Compose runs, or nothing.
var written = regexp.MustCompile(
	"(?m)(?:`|<code>|^|&& |; )(?:[A-Z_]+=\\S* )*" +
		"(?:bin/api|supplyhub-api|api|docker compose .* run --rm command) ([a-z-][^`\\n<]*)")

// sibling is a word of a table's cell that begins with a command of the same parent: `api rate list`, `set`.
var sibling = regexp.MustCompile("`api ((?:[a-z-]+ )+)[a-z-]+`((?:, `[a-z-]+`)+)")

func TestDocuments_name_commands_and_flags_that_there_are(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"*.md", "deployments/*.md", "deployments/*/*.md", "deployments/*.sh",
		"deployments/compose.yaml", "deployments/prometheus/*.yaml", "deployments/systemd/*",
		"internal/httpapi/docs/*.html"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range namedCommands(string(text)) {
			if checked++; !isCommand(line) {
				t.Errorf("%s: there is no `api %s`", file, line)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands were found", checked)
	}
}

func namedCommands(text string) (lines []string) {
	for _, found := range written.FindAllStringSubmatch(text, -1) {
		line, _, _ := strings.Cut(html.UnescapeString(found[1]), " && ")
		line, _, _ = strings.Cut(line, ")")
		lines = append(lines, strings.TrimRight(line, ".,;:\\ "))
	}
	for _, found := range sibling.FindAllStringSubmatch(text, -1) {
		for _, word := range strings.Split(strings.Trim(found[2], ", `"), "`, `") {
			lines = append(lines, found[1]+word)
		}
	}
	return lines
}

// isCommand reports whether the words are a command of the api with flags that it has.
func isCommand(line string) bool {
	root := newRoot()
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	root.InitDefaultCompletionCmd()
	var words []string
	for _, word := range strings.Fields(line) {
		if strings.HasPrefix(word, "#") || strings.HasPrefix(word, "->") {
			break
		}
		words = append(words, strings.Trim(word, `"'`))
	}
	cmd, rest, err := root.Find(words)
	if err != nil {
		return false
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return false
	}
	return flagsExist(cmd, rest)
}

func flagsExist(cmd *cobra.Command, words []string) bool {
	cmd.InitDefaultHelpFlag()
	for _, word := range words {
		name, isFlag := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "" && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
			return false
		}
	}
	return true
}

func TestDocuments_a_command_that_there_is_not_is_found(t *testing.T) {
	t.Parallel()
	for text, is := range map[string]bool{"`api supplier list`": true, "`api supplier lists`": false,
		"`bin/api nothing`": false,
		"<code>bin/api delivery list --stats dead</code>": false, "api verify\n": true, "`api rate list`, `set`": true,
		"`api rate list`, `sets`": false, "A=b bin/api supplier update ID --webhook-url x\n": true} {
		lines := namedCommands(text)
		all := len(lines) > 0
		for _, line := range lines {
			all = all && isCommand(line)
		}
		if all != is {
			t.Errorf("%s: %v, read as %q", text, all, lines)
		}
	}
}

// An example is a line that people copy: a program before a pipe and a line that is folded are parts of it.
func TestHelp_of_a_command_that_takes_arguments_has_examples_that_parse(t *testing.T) {
	t.Parallel()
	examples := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			walk(child)
		}
		if strings.Contains(cmd.Use, " ") && cmd.Runnable() && cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(strings.ReplaceAll(cmd.Example, "\\\n", " ")) {
			_, words, found := strings.Cut(" "+strings.TrimSpace(line), " api ")
			words, _, _ = strings.Cut(words, " | ")
			if examples++; !found || !isCommand(words) {
				t.Errorf("%s: this example is no command: %s", cmd.CommandPath(), line)
			}
		}
	}
	walk(newRoot())
	if examples < 30 {
		t.Errorf("only %d examples were found", examples)
	}
}
