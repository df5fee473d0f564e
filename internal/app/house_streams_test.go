package app_test

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// ownReads are the files whose reads are bounded elsewhere, as it says there.
var ownReads = []string{
	"internal/httpapi/decode.go",    // a body, by its caller
	"internal/terminal/terminal.go", // nothing is kept of what is passed on
}

// controls are the files of commands that move a terminal's cursor, with nothing that came from outside.
var controls = []string{"cmd/api/top.go"}

func TestHouse_commands_print_by_the_writers_that_they_get(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || !strings.HasPrefix(f.name, "cmd/") {
			continue
		}
		for _, d := range f.tree.Decls {
			fn, _ := d.(*ast.FuncDecl)
			isMain := fn != nil && fn.Name.Name == "main"
			ast.Inspect(d, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				switch name := exprName(s); {
				case (name == "os.Stdout" || name == "os.Stderr") && !isMain,
					slices.Contains([]string{"fmt.Print", "fmt.Printf", "fmt.Println"}, name), strings.HasPrefix(name, "log."),
					s.Sel.Name == "Control" && !f.matches(controls):
					t.Errorf("%s writes past the terminal's filter: %s", f.name, name)
				}
				return true
			})
			if fn != nil && fn.Name.Name == "run" && !filtersFirst(fn) {
				t.Errorf("%s: run does not begin with the filter of both streams", f.name)
			}
		}
	}
}

// filtersFirst reports whether the function begins with stdout, stderr = terminal.New(stdout), terminal.New(stderr).
func filtersFirst(fn *ast.FuncDecl) bool {
	first, ok := fn.Body.List[0].(*ast.AssignStmt)
	if !ok || len(first.Lhs) != 2 || len(first.Rhs) != 2 {
		return false
	}
	for i, stream := range []string{"stdout", "stderr"} {
		call, ok := first.Rhs[i].(*ast.CallExpr)
		if !ok || exprName(call.Fun) != "terminal.New" || exprName(first.Lhs[i]) != stream ||
			exprName(call.Args[0]) != stream {
			return false
		}
	}
	return true
}

// Input from outside has a limit where it is read.
func TestHouse_reads_have_a_limit(t *testing.T) {
	t.Parallel()
	source := map[string]int{"io.ReadAll": 0, "io.Copy": 1, "json.NewDecoder": 0, "xml.NewDecoder": 0}
	limits := []string{"io.LimitReader", "http.MaxBytesReader", "bytes.NewReader", "strings.NewReader"}
	for _, f := range sources(t) {
		if f.test || isHelper(path.Dir(f.name)) || strings.HasPrefix(f.name, "deployments/bench/") || f.matches(ownReads) {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			at, reads := source[exprName(call.Fun)]
			if !reads {
				return true
			}
			from, ok := call.Args[at].(*ast.CallExpr)
			if !ok || !slices.Contains(limits, exprName(from.Fun)) {
				t.Errorf("%s:%d: %s without a limit", f.name, f.set.Position(call.Pos()).Line, exprName(call.Fun))
			}
			return true
		})
	}
}

// Calls one after the other keep a dead HTTP/2 connection from being idle: each transport that keeps connections asks
// one that is silent whether it is alive.
func TestHouse_connections_that_are_kept_are_asked_whether_they_live(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || isHelper(path.Dir(f.name)) || strings.HasPrefix(f.name, "deployments/bench/") {
			continue
		}
		transports, asked := 0, 0
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if slices.Contains([]string{"http.Transport", "http.DefaultTransport", "http.DefaultClient"}, exprName(n)) {
					transports++
				}
			case *ast.KeyValueExpr:
				if name := exprName(n.Key); name == "SendPingTimeout" || name == "DisableKeepAlives" {
					asked++
				}
			}
			return true
		})
		if transports > 0 && asked == 0 {
			t.Errorf("%s keeps connections and never asks whether they live", f.name)
		}
	}
}
