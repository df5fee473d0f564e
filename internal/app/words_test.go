package app_test

import (
	"bytes"
	"go/ast"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// privateWords are words that this project once had for things that have a name in the field, and what to say instead.
// They stay out of names, comments, texts, tests and documents.
var privateWords = map[string]string{
	"aloud":    "and says so",
	"anew":     "again",
	"beside":   "while, at the same time, with; of a place: next to",
	"crowd":    "subscription, or what they are: receivers, callers",
	"desk":     "notifier",
	"lane":     "destination",
	"mend":     "repair, fix",
	"mended":   "repaired, fixed",
	"mending":  "repairing, fixing",
	"mends":    "repairs, fixes",
	"nobody":   "no client, no worker, no owner",
	"rooms":    "packages",
	"somebody": "a client, another worker, another transaction",
	"stand":    "be, appear; of a process: be stopped",
	"stands":   "is, appears",
	"stood":    "was; of a process: was stopped",
	"tells":    "reports whether, returns, records, logs",
	"told":     "notified, logged, given",
	"whoever":  "the caller, the owner, the client",
}

// privatePhrases are those that are no English, or hide who does what.
var privatePhrases = []struct {
	part    string // in each of them: quicker to look for
	form    *regexp.Regexp
	instead string
}{
	{"lead", regexp.MustCompile(`(?i)\b(leads?|leading) (to|on|here|there|back|out|through|into)\b`),
		"points at, links to, redirects to, goes on, causes"},
	{"led ", regexp.MustCompile(`(?i)\bled (to|on|here|there|back|out|through|into)\b`),
		"pointed at, redirected to, caused"},
	{"of ours", regexp.MustCompile(`(?i)\bof ours\b`), "our"},
	{"for good", regexp.MustCompile(`(?i)\bfor good\b`), "permanently, finally"},
	{"a supplier and", regexp.MustCompile(`(?i)\ba supplier and (minute|second|day)\b`),
		"for each supplier in each minute"},
}

// whatIs is a sentence, or a part of one, whose subject is a clause: the reader learns at its end what it was about. A
// noun that is explained behind a colon has no verb of its own.
var whatIs = regexp.MustCompile(
	`((^|[.:|] |// |-- |# |[>"])What [^.?!:|"<]{2,100}|: what [^.?!:|"<,]{2,100}) (is|are|was|were|has|goes|comes|gets|` +
		`makes|leaves|waits|counts|stays|changes|ends|begins|belongs|says|names|hangs|may|must|would|could) |; what `)

// quotedWords are files in which private words stay: a name that is not ours, what is released, this list.
var quotedWords = []string{
	"internal/database/databasetest/cluster/cluster.go", // nobody, a user of Unix
	"internal/app/words_test.go",
}

// privateForms are openings of doc comments, and what a reader of Go's documentation expects instead.
var privateForms = map[string]string{"gives": "returns", "tells": "reports whether, returns",
	"says": "reports, returns, prints"}

var (
	word  = regexp.MustCompile(`[A-Za-z]+`)
	camel = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
)

func TestHouse_speaks_the_words_of_the_field(t *testing.T) {
	t.Parallel()
	checked := 0
	for name, text := range texts(t) {
		if (source{name: name}).matches(quotedWords) {
			continue
		}
		checked++
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			number := i + 1
			lower := strings.ToLower(line)
			for _, phrase := range privatePhrases {
				if !strings.Contains(lower, phrase.part) {
					continue
				}
				if found := phrase.form.FindString(line); found != "" {
					t.Errorf("%s:%d says %q: say %s", name, number, found, phrase.instead)
				}
			}
			folded := line + " " // a sentence goes on in the next line, without the mark of a comment
			if number < len(lines) {
				folded += strings.TrimLeft(lines[number], "\t /-#") + " "
			}
			var found []int
			if strings.Contains(lower, "what") {
				found = whatIs.FindStringIndex(folded)
			}
			if found != nil && found[0] < len(line) {
				t.Errorf("%s:%d begins a sentence or a clause with what: begin it with its subject: %q", name, number,
					folded[found[0]:found[1]])
			}
			if !mayBePrivate(lower) {
				continue
			}
			for _, w := range word.FindAllString(line, -1) {
				for _, part := range camel.FindAllString(w, -1) {
					if instead, private := privateWords[strings.ToLower(part)]; private {
						t.Errorf("%s:%d says %q: say %s", name, number, part, instead)
					}
				}
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d files were read", checked)
	}
}

// mayBePrivate reports whether a private word is anywhere in the line: quicker than to take all lines apart.
func mayBePrivate(line string) bool {
	for private := range privateWords {
		if strings.Contains(line, private) {
			return true
		}
	}
	return false
}

func TestHouse_comments_have_the_form_of_Go_documentation(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Doc == nil {
				continue
			}
			line, doc := f.set.Position(fn.Pos()).Line, strings.Join(strings.Fields(fn.Doc.Text()), " ")
			name, rest, _ := strings.Cut(doc, " ")
			verb, _, _ := strings.Cut(rest, " ")
			if instead, private := privateForms[verb]; private && name == fn.Name.Name {
				t.Errorf("%s:%d: %s %s …: say %s", f.name, line, name, verb, instead)
			}
			if !f.test && name != fn.Name.Name {
				t.Errorf("%s:%d: the comment of %s begins with another name: %q", f.name, line, fn.Name.Name, doc)
			}
			if !f.test && returnsValue(fn) && isForm.MatchString(doc) {
				t.Errorf("%s:%d: say what %s returns or does, not what it is: %q", f.name, line, name, doc)
			}
			if returnsBool(fn) && !f.test && !strings.Contains(doc, "reports whether") &&
				!strings.Contains(doc, "report whether") {
				t.Errorf("%s:%d: %s returns a bool: say what it reports: %q", f.name, line, fn.Name.Name, doc)
			}
		}
	}
}

// isForm is how a comment says what a value is, which a function is not.
var isForm = regexp.MustCompile(`^\w+ (is|are) (the|a|an|what|how|when|where|why|those|all|every) `)

func returnsValue(fn *ast.FuncDecl) bool {
	if fn.Type.Results == nil {
		return false
	}
	id, ok := fn.Type.Results.List[0].Type.(*ast.Ident)
	return !ok || id.Name != "error"
}

func returnsBool(fn *ast.FuncDecl) bool {
	if fn.Type.Results == nil || len(fn.Type.Results.List) != 1 || len(fn.Type.Results.List[0].Names) > 1 {
		return false
	}
	id, ok := fn.Type.Results.List[0].Type.(*ast.Ident)
	return ok && id.Name == "bool"
}

// texts are the project's files that people read, by their paths from the root, with slashes.
func texts(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", ".fuzz", "bin", "data", "testdata"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || slices.Contains([]string{".sum", ".svg", ".out", ".test", ".prof"}, path.Ext(file)) {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 {
			files[filepath.ToSlash(name)] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
