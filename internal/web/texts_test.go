package web_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template/parse"
)

// navigation finds the texts of a site's Config, which are in its package's code.
var navigation = regexp.MustCompile(`(?:Text|Title): "([^"]+)"`)

// untranslated returns the literals that the pages below a directory, and its code, translate and that have no
// Portuguese.
func untranslated(t *testing.T, dir fs.FS) []string {
	t.Helper()
	found, portuguese := map[string]bool{}, map[string]string{}
	content, err := os.ReadFile("pt.json")
	if err == nil {
		err = json.Unmarshal(content, &portuguese)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(dir, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(dir, path)
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(path, ".html"):
			return literals(path, string(text), found)
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			for _, named := range navigation.FindAllStringSubmatch(string(text), -1) {
				found[named[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(found, func(text string, _ bool) bool { return portuguese[text] != "" })
	return slices.Sorted(maps.Keys(found))
}

// literals adds the literals in the calls of t and n of a page.
func literals(name, page string, found map[string]bool) error {
	root := parse.New(name)
	root.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := root.Parse(page, "", "", trees); err != nil {
		return err
	}
	for _, tree := range trees {
		collect(tree.Root, found)
	}
	return nil
}

// collect finds the literals below a node.
func collect(node parse.Node, found map[string]bool) {
	branch := func(b *parse.BranchNode) {
		collect(b.Pipe, found)
		collect(b.List, found)
		collect(b.ElseList, found)
	}
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			collect(child, found)
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.ActionNode:
		collect(n.Pipe, found)
	case *parse.TemplateNode:
		collect(n.Pipe, found)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for _, command := range n.Cmds {
			collectCall(command, found)
		}
	}
}

func collectCall(command *parse.CommandNode, found map[string]bool) {
	name, _ := command.Args[0].(*parse.IdentifierNode)
	for i, argument := range command.Args {
		collect(argument, found)
		text, literal := argument.(*parse.StringNode)
		if name != nil && literal && (name.Ident == "t" && i == 1 || name.Ident == "n" && (i == 1 || i == 2)) {
			found[text.Text] = true
		}
	}
}

func TestPages_have_the_Portuguese_of_every_text(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".", "../portal", "../console"} {
		for _, text := range untranslated(t, os.DirFS(dir)) {
			t.Errorf("%s: no Portuguese for %q", dir, text)
		}
	}
	for _, hello := range []string{`t "Never translated"`,
		`if .Data}}{{t "Never translated"}}{{end}}{{t "Sign in"`, `n "Never translated" "%d more items" .Data`} {
		if missing := untranslated(t, page(hello).Pages); !slices.Equal(missing, []string{"Never translated"}) {
			t.Errorf("%s: %q", hello, missing)
		}
	}
}
