package app_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"testing"
)

// ofBatch marks the SQL that takes a batch as arrays, or numbered parameters.
var ofBatch = regexp.MustCompile(`unnest\(|json_each\(\$|\$1\b`)

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
