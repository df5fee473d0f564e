package app_test

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// privateWords are words that this code once had for things that have a name in the field, and what to say instead.
// They stay out of names, comments and texts of the product's code.
var privateWords = map[string]string{
	"crowd":    "subscription, or what they are: receivers, callers",
	"desk":     "notifier",
	"lane":     "destination",
	"nobody":   "no client, no worker, no owner",
	"somebody": "a client, another worker, another transaction",
	"tells":    "reports whether, returns, records, logs",
	"told":     "notified, logged, given",
	"whoever":  "the caller, the owner, the client",
}

// quotedWords are files in which a private word is a name of somebody else's.
var quotedWords = map[string][]string{
	"nobody": {"internal/database/databasetest/cluster/cluster.go"}, // a user of Unix
}

var (
	word  = regexp.MustCompile(`[A-Za-z]+`)
	camel = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
)

func TestHouse_speaks_the_words_of_the_field(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || strings.HasPrefix(f.name, "internal/bench/") {
			continue
		}
		check := func(n ast.Node, text string, words *regexp.Regexp) {
			for _, w := range words.FindAllString(text, -1) {
				w = strings.ToLower(w)
				if instead, private := privateWords[w]; private && !f.matches(quotedWords[w]) {
					t.Errorf("%s:%d says %q: say %s", f.name, f.set.Position(n.Pos()).Line, w, instead)
				}
			}
		}
		for _, group := range f.tree.Comments {
			for _, c := range group.List {
				check(c, c.Text, word)
			}
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				check(n, n.Name, camel)
			case *ast.BasicLit:
				check(n, n.Value, word)
			}
			return true
		})
	}
}
