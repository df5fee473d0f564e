package app_test

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ofBatch marks the SQL that takes a batch as arrays, or numbered parameters.
var ofBatch = regexp.MustCompile(`unnest\(|json_each\(\$|\$1\b`)

// unnumbered is the place of a value as only gorm's builder may have it.
var unnumbered = regexp.MustCompile(`(?:[=<>]|\b(?:IN|LIMIT|OFFSET|AND|BETWEEN))\s*\?(?:[\s,)]|$)|[(,]\s*\?[,)]`)

func TestHouse_statements_number_their_values(t *testing.T) {
	t.Parallel()
	built := 0
	for _, f := range sources(t) {
		if f.test || isHelper(path.Dir(f.name)) {
			continue
		}
		builder := map[ast.Node]bool{}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Where" {
					builder[n.Args[0]] = true
				}
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				switch {
				case n.Kind != token.STRING || err != nil || !unnumbered.MatchString(text):
				case builder[n]:
					built++
				default:
					t.Errorf("%s: %s has ? for a value: write $1, $2, … and run it by package database", f.name, n.Value)
				}
			}
			return true
		})
	}
	if built < 1 {
		t.Errorf("only %d conditions of gorm's builder are found", built)
	}
}

// A statement that is run past database.Query, Column, One and Exec is in no log when it is slow, and its error does
// not say that the database is away.
func TestHouse_statements_are_run_by_the_database_package(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		room := path.Dir(f.name)
		if f.test || isHelper(room) || strings.HasPrefix(room, "internal/database") ||
			strings.HasPrefix(room, "internal/bench") {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"ExecContext", "QueryContext", "QueryRowContext"},
				s.Sel.Name) {
				t.Errorf("%s calls %s: use database.Query, Column, One or Exec", f.name, s.Sel.Name)
			}
			return true
		})
	}
}

// chooses marks a condition with a query of its own.
var chooses = regexp.MustCompile(`\bIN \(SELECT`)

// Where a plan joins with a query that has a LIMIT or takes locks, it may run that query once for each row.
func TestHouse_statements_choose_their_rows_once(t *testing.T) {
	t.Parallel()
	chosen := 0
	for _, f := range sources(t) {
		if f.test || isHelper(path.Dir(f.name)) || f.name == "internal/database/dialect.go" {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Chosen" {
					chosen++
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && chooses.MatchString(n.Value) {
					t.Errorf("%s: %s: use database.Dialect.Chosen", f.name, n.Value)
				}
			}
			return true
		})
	}
	if chosen < 4 {
		t.Errorf("only %d statements choose by Chosen", chosen)
	}
}

func TestHouse_statements_of_batches_do_not_pass_gorm(t *testing.T) {
	t.Parallel()
	batches := 0
	for _, f := range sources(t) {
		if f.test || !f.matches([]string{"internal/*/store*.go", "internal/*/*/store*.go"}) {
			continue
		}
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			batch, gorm := rowsOf(fn)
			if batch {
				batches++
			}
			if batch && gorm {
				t.Errorf("%s: %s hands a statement with $1 or with arrays to gorm; read it by database.Query",
					f.name, fn.Name.Name)
			}
		}
	}
	if batches < 20 {
		t.Errorf("only %d functions with statements of batches are found", batches)
	}
}

// rowsOf reports whether a function has the statement of a batch, and whether it asks gorm.
func rowsOf(fn *ast.FuncDecl) (batch, gorm bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			batch = batch || n.Kind == token.STRING && ofBatch.MatchString(n.Value)
		case *ast.SelectorExpr:
			gorm = gorm || n.Sel.Name == "From" || n.Sel.Name == "Reader"
			batch = batch || n.Sel.Name == "RoundsTable"
		}
		return true
	})
	return batch, gorm
}
