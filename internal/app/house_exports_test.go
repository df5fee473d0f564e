package app_test

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// forTests are exported names that tests of other packages and the benchmark need, and the product does not.
var forTests = map[string]string{
	"internal/config.Variables":          "guides and files of the deployments name them",
	"internal/database.Migrations":       "key the databases that tests copy",
	"internal/dispatch.Cooldown":         "what a test lets pass",
	"internal/httpapi.OpenAPIDocument":   "the tests check every answer against it",
	"internal/scoreboard/sample.Match":   "the acceptance tests' provider answers with it",
	"internal/scoreboard/sample.Fixture": "as above",
	"internal/scoreboard/sample.Goals":   "as above",
}

// A function, constant or variable of internal/ is exported for another package of the product. Types are exported with
// what takes or returns them, errors and the constants of one type with each other.
func TestHouse_exports_nothing_for_tests_alone(t *testing.T) {
	t.Parallel()
	used := map[string]bool{} // package.Name, by the product
	files := sources(t)
	for _, f := range files {
		if f.test || isHelper(path.Dir(f.name)) {
			continue
		}
		imported := map[string]string{}
		for _, spec := range f.tree.Imports {
			if name, own := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module); own {
				imported[path.Base(name)] = name
			}
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				used[imported[baseName(s.X)]+"."+s.Sel.Name] = true
			}
			return true
		})
	}
	found := map[string]bool{}
	for _, f := range files {
		dir := path.Dir(f.name)
		if f.test || isHelper(dir) || !strings.HasPrefix(dir, internalDir) {
			continue
		}
		for _, names := range exported(f.tree) {
			isUsed := func(name string) bool { return used[dir+"."+name] || strings.HasPrefix(name, "Err") }
			if slices.ContainsFunc(names, isUsed) {
				continue
			}
			for _, name := range names {
				found[dir+"."+name] = true
				if forTests[dir+"."+name] == "" {
					t.Errorf("%s: no other package of the product uses %s: do not export it", f.name, name)
				}
			}
		}
	}
	for name := range forTests {
		if !found[name] {
			t.Errorf("%s is used or gone: take it out of the table", name)
		}
	}
}

// exported are the file's exported functions, variables and constants; those of one block, which enumerate, together.
func exported(file *ast.File) (groups [][]string) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				groups = append(groups, []string{d.Name.Name})
			}
		case *ast.GenDecl:
			var group []string
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok {
					for _, name := range v.Names {
						if name.IsExported() {
							group = append(group, name.Name)
						}
					}
				}
			}
			if len(group) > 0 {
				groups = append(groups, group)
			}
		}
	}
	return groups
}
