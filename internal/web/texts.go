package web

import (
	"html/template"
	"maps"
	"slices"
	"text/template/parse"
)

// texts returns the literals that the pages and the navigation translate, sorted.
func (s *Site) texts(pages map[string]*template.Template) []string {
	found := map[string]bool{s.cfg.Title: true}
	for _, link := range s.cfg.Navigation {
		found[link.Text] = true
	}
	for _, page := range pages {
		for _, t := range page.Templates() {
			if t.Tree != nil && t.Tree.Root != nil {
				collect(t.Tree.Root, found)
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// collect finds the literals in the calls of t and n below a node.
func collect(node parse.Node, found map[string]bool) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			collect(child, found)
		}
	case *parse.IfNode:
		collectBranch(&n.BranchNode, found)
	case *parse.RangeNode:
		collectBranch(&n.BranchNode, found)
	case *parse.WithNode:
		collectBranch(&n.BranchNode, found)
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

func collectBranch(b *parse.BranchNode, found map[string]bool) {
	collect(b.Pipe, found)
	collect(b.List, found)
	collect(b.ElseList, found)
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
