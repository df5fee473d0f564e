package acceptance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// kindsOfCode reads from the code every name of a transaction and every kind of write, with its places.
type kindsOfCode struct {
	t                    *testing.T
	transactions, writes map[string][]string
}

func readKinds(t *testing.T) kindsOfCode {
	t.Helper()
	k := kindsOfCode{t, map[string][]string{}, map[string][]string{}}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"bench", "databasetest", "acceptance"}, entry.Name()):
			return fs.SkipDir
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"):
			k.file(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(k.transactions) < 30 || len(k.writes) < 30 {
		t.Fatalf("the code has more than %d transactions and %d kinds of writes: they are not found any more",
			len(k.transactions), len(k.writes))
	}
	return k
}

func (k kindsOfCode) file(path string) {
	k.t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	within := "" // the function
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			within = n.Name.Name
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				for _, write := range apptest.Writes(text) {
					k.writes[write] = append(k.writes[write], set.Position(n.Pos()).String())
				}
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && strings.EqualFold(called.Sel.Name, "InTx") {
				k.call(n, within, set.Position(n.Pos()).String())
			}
		}
		return true
	})
}

// call notes the name that is given to InTx. Functions of that name pass one on; those of a replica only read.
func (k kindsOfCode) call(n *ast.CallExpr, within, place string) {
	k.t.Helper()
	for _, argument := range n.Args {
		if literal, ok := argument.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			name, err := strconv.Unquote(literal.Value)
			if err != nil {
				k.t.Fatal(err)
			}
			k.transactions[name] = append(k.transactions[name], place)
			return
		}
	}
	if !strings.EqualFold(within, "InTx") && !strings.Contains(place, "database/rows.go") {
		k.t.Errorf("%s: the name of a transaction must be written out, so that the sweep finds it", place)
	}
}
