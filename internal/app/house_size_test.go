package app_test

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// The most that one package may hold, tests apart.
const (
	mostFiles   = 30
	mostLines   = 4500
	mostMethods = 45 // of a type
	mostImports = 8  // of packages of this module
)

// manyImports are the packages that may import more, and why.
var manyImports = map[string]string{
	"cmd/api":                 "its commands print what every feature has",
	"internal/app":            "it builds everything",
	"internal/console":        "it shows every feature",
	"internal/portal":         "it shows every feature of a supplier",
	"internal/deliveries":     "three of them hold a type or two: caller, cursor, notice",
	"internal/receivers":      "as deliveries",
	"internal/sending":        "as deliveries",
	"internal/materials":      "as deliveries",
	"internal/materials/work": "one of them is three functions: sleep",
	"internal/supplierauth":   "one of them is three functions: lists",
}

func TestHouse_packages_and_types_stay_small_enough_to_be_known(t *testing.T) {
	t.Parallel()
	files, lines, methods := map[string]int{}, map[string]int{}, map[string]int{}
	imports := map[string]map[string]bool{}
	for _, f := range sources(t) {
		room := path.Dir(f.name)
		if f.test || isHelper(room) {
			continue
		}
		files[room]++
		lines[room] += f.set.Position(f.tree.End()).Line
		if imports[room] == nil {
			imports[room] = map[string]bool{}
		}
		for _, spec := range f.tree.Imports {
			if name, own := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module); own {
				imports[room][name] = true
			}
		}
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[room+"."+baseName(fn.Recv.List[0].Type)]++
			}
		}
	}
	for room := range files {
		if files[room] > mostFiles || lines[room] > mostLines {
			t.Errorf("%s has %d files with %d lines, at most %d and %d", room, files[room], lines[room], mostFiles, mostLines)
		}
		n := len(imports[room])
		if n > mostImports != (manyImports[room] != "") {
			t.Errorf("%s imports %d of our packages, at most %d unless the table says why", room, n, mostImports)
		}
	}
	for name, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods, at most %d", name, n, mostMethods)
		}
	}
}
