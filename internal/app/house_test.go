package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The house: who may import whom, which library lives in which file, how large a thing may grow. These tables are the
// law; ARCHITECTURE.md explains them and deployments/lint/golangci.yml says the same in the editor.

const (
	module       = "github.com/supplyhub/supplyhub/"
	root         = "../.."
	longestFile  = 500
	longestTest  = 600
	longestFunc  = 80
	mostTangled  = 15 // branches of a function, plus one
	longestChain = 7  // packages, each imported by the one before
	internalDir  = "internal/"
)

// edges are the packages of this module that each package may import, tests aside.
var edges = map[string][]string{
	"cmd/api": {"internal/app", "internal/config", "internal/database/sqlite", "internal/queue/embedded", "internal/errs",
		"internal/estimates", "internal/figures", "internal/materials", "internal/materials/operator",
		"internal/scoreboard/sample", "internal/supplierauth", "internal/tracker", "internal/deliveries", "internal/lists",
		"internal/logctx", "internal/sleep", "internal/terminal", "pkg/webhook"},
	"cmd/worker": {"internal/app", "internal/config", "internal/errs", "internal/terminal"},

	"internal/app": {
		"internal/caller", "internal/config", "internal/cursor", "internal/database", "internal/estimates",
		"internal/httpapi", "internal/materials", "internal/materials/operator", "internal/materials/work",
		"internal/portal", "internal/products", "internal/queue", "internal/scoreboard",
		"internal/scoreboard/balldontlie", "internal/scoreboard/fetch", "internal/scoreboard/sportmonks",
		"internal/supplierauth", "internal/telemetry",
		"internal/round", "internal/tracker", "internal/deliveries", "internal/receivers", "internal/sending",
		"pkg/webhook",
		"internal/console", "internal/figures", "internal/notify", "internal/errs", "internal/lists", "internal/logctx",
		"internal/sleep", "internal/terminal", "internal/doctor",
	},
	"internal/console": {"internal/cursor", "internal/errs", "internal/estimates", "internal/figures", "internal/httpapi",
		"internal/lists", "internal/logctx", "internal/materials", "internal/materials/operator", "internal/scoreboard",
		"internal/supplierauth", "internal/tracker", "internal/web", "internal/deliveries", "internal/reads",
		"internal/receivers"},
	"internal/figures": {"internal/database", "internal/errs"},
	"internal/doctor": {"internal/database", "internal/errs", "internal/queue", "internal/telemetry",
		"deployments"}, // the rights of each role
	"internal/notice": {},
	"internal/notify": {"internal/database", "internal/errs", "internal/lists", "internal/notice", "internal/sleep",
		"pkg/webhook"},
	"internal/caller":      {"pkg/webhook"}, // what signs the calls of a receiver
	"internal/cursor":      {},
	"internal/config":      {"deployments", "pkg/webhook"}, // the table of variables; checks of secrets
	"internal/apikey":      {"internal/errs"},
	"internal/errs":        {},
	"internal/logctx":      {},
	"internal/sleep":       {},
	"internal/lists":       {},
	"internal/terminal":    {},
	"internal/round":       {"pkg/webhook"}, // the event on its way
	"internal/pack":        {},
	"internal/reads":       {},
	"internal/groupcommit": {"internal/errs", "internal/lists"},
	"internal/dispatch":    {},
	"deployments/samples":  nil,
	"internal/httpapi":     {"deployments/samples", "internal/cursor", "internal/errs", "internal/logctx"},
	"internal/database":    {"internal/errs", "internal/lists", "internal/sleep"},

	"internal/database/sqlite": {"internal/database"},

	"internal/queue":          {"internal/sleep"},
	"internal/queue/embedded": {"internal/errs", "internal/queue"},

	"internal/telemetry": {"internal/errs", "internal/logctx"},
	"internal/web":       {"internal/errs", "internal/httpapi"},

	"internal/supplierauth": {"internal/apikey", "internal/caller", "internal/database", "internal/errs",
		"internal/groupcommit",
		"internal/httpapi", "internal/lists", "internal/logctx", "pkg/webhook"},
	"internal/estimates": {"internal/database", "internal/errs", "pkg/webhook"},
	"internal/products":  {"internal/caller", "internal/database", "internal/errs", "internal/httpapi", "internal/lists"},
	"internal/deliveries": {"internal/caller", "internal/cursor", "internal/database",
		"internal/errs", "internal/httpapi", "internal/lists", "internal/logctx", "internal/notice", "internal/pack",
		"internal/reads", "internal/round", "internal/sleep", "pkg/webhook"},
	"internal/receivers": {"internal/caller", "internal/database", "internal/deliveries", "internal/dispatch",
		"internal/errs", "internal/httpapi", "internal/lists", "internal/logctx", "internal/notice", "internal/round",
		"internal/sleep", "pkg/webhook"},
	"internal/sending": {"internal/caller", "internal/database", "internal/deliveries", "internal/dispatch",
		"internal/errs", "internal/groupcommit", "internal/lists", "internal/logctx", "internal/notice", "internal/pack",
		"internal/receivers", "internal/round", "internal/sleep", "pkg/webhook"},
	"internal/tracker": {"internal/apikey", "internal/database", "internal/errs", "internal/httpapi",
		"internal/lists", "internal/logctx"},
	"internal/scoreboard": {"internal/database", "internal/errs", "internal/groupcommit", "internal/httpapi",
		"internal/reads",
		"internal/scoreboard/fetch"},

	"internal/scoreboard/balldontlie": {"internal/scoreboard", "internal/scoreboard/fetch"},
	"internal/scoreboard/fetch":       {},
	"internal/scoreboard/sample":      {"internal/scoreboard"},
	"internal/scoreboard/sportmonks":  {"internal/scoreboard", "internal/scoreboard/fetch"},

	"internal/materials": {"internal/caller", "internal/cursor", "internal/database", "internal/errs",
		"internal/groupcommit", "internal/httpapi", "internal/lists", "internal/logctx", "internal/notice", "internal/pack",
		"internal/round", "internal/sleep", "pkg/webhook"},
	"internal/materials/operator": {"internal/database", "internal/errs", "internal/lists", "internal/materials",
		"internal/round", "internal/sleep"},
	"internal/materials/work": {"internal/database", "internal/errs", "internal/estimates", "internal/groupcommit",
		"internal/lists", "internal/logctx", "internal/materials", "internal/round", "internal/sleep", "pkg/webhook"},
	"internal/portal": {
		"internal/caller", "internal/errs", "internal/httpapi", "internal/lists", "internal/logctx", "internal/materials",
		"internal/supplierauth", "internal/web", "internal/deliveries", "internal/receivers",
	},

	"pkg/webhook":           {},
	"pkg/client":            {"pkg/webhook"},
	"pkg/client/clienttest": {"pkg/client", "pkg/webhook"},

	// Helpers of tests and measurements; nothing that runs in production may import them.
	"internal/acceptance": {},
	"internal/app/apptest": {"internal/app/apptest/wait", "internal/database", "internal/database/databasetest",
		"internal/queue/queuetest", "internal/httpapi/openapitest", "internal/supplierauth", "pkg/webhook"},
	"internal/app/apptest/browser": {"internal/app/apptest/wait"},
	"internal/app/apptest/wait":    {},
	"internal/bench": {"internal/database", "internal/pack",
		"internal/round", "internal/supplierauth"},
	"internal/database/databasetest": {"internal/database", "internal/database/sqlite",
		"internal/database/databasetest/cluster"},
	"internal/database/databasetest/cluster": {},
	"internal/database/databasetest/withpostgres": {"internal/database/databasetest",
		"internal/database/databasetest/cluster"},
	"internal/httpapi/bodytest":      {"internal/errs", "internal/httpapi"},
	"internal/httpapi/docs/receiver": {}, // the receiver that /docs/webhooks shows
	"internal/httpapi/openapitest":   {"internal/httpapi"},
	"internal/queue/queuetest":       {"internal/app/apptest/wait"},
	"deployments/guide":              {},
	"deployments/running":            {}, // tests only
	"deployments":                    {}, // a test only
}

// homes are the files, tests and test helpers aside, that may import a library: path patterns, where a pattern that
// ends in / matches everything below it.
var homes = []struct {
	library string
	files   []string
}{
	{"github.com/gin-gonic/gin", []string{"internal/httpapi/*.go", "internal/app/routes.go", "internal/app/serve.go",
		"internal/*/http*.go"}},
	{"gorm.io/", []string{"internal/database/*.go", "internal/database/sqlite/*.go", "internal/*/store*.go"}},
	{"modernc.org/sqlite", []string{"internal/database/sqlite/*.go"}},
	{"github.com/jackc/pgx", []string{"internal/database/*.go"}},
	{"github.com/pressly/goose", []string{"internal/database/*.go"}},
	{"github.com/nats-io/", []string{"internal/queue/*.go", "internal/queue/embedded/*.go"}},
	{"github.com/hashicorp/go-retryablehttp", []string{"internal/sending/sender.go"}},
	{"github.com/golang-jwt/jwt", []string{"internal/supplierauth/token*.go"}},
	{"github.com/spf13/cobra", []string{"cmd/api/*.go"}},
	{"github.com/caarlos0/env", []string{"internal/config/*.go"}},
	{"github.com/klauspost/compress", []string{"internal/pack/*.go"}},
	{"net/http/pprof", []string{"internal/telemetry/*.go"}},
	{"go.opentelemetry.io/", []string{"internal/telemetry/*.go", "internal/httpapi/engine.go",
		"internal/httpapi/tracing.go"}},
}

// helpers are the packages for tests and measurements: the homes of libraries do not bind them.
var helpers = []string{"deployments/guide", "internal/acceptance", "internal/app/apptest", "internal/bench",
	"internal/database/databasetest", "internal/httpapi/bodytest", "internal/httpapi/openapitest",
	"internal/queue/queuetest"}

// ownClocks are the files that may read the machine's clock: to measure how long something took in this process, to
// find how far that clock is from the database's, or to work where no database is. Whatever is stored, or compared with
// it, is the database's time.
var ownClocks = []string{
	// the database's own time
	"internal/database/faults_*.go", "internal/database/doctor.go", "internal/database/errors.go",
	"internal/database/query.go", "internal/database/sqlite.go", "internal/database/answering.go",
	"internal/database/hosts.go",
	"internal/app/doctor_*.go", "internal/app/notices.go", "internal/app/watch.go", "internal/httpapi/middleware.go",
	"internal/httpapi/decode.go",
	"internal/httpapi/docs/receiver/main.go", // what a supplier copies
	"internal/queue/*.go",
	"internal/queue/embedded/*.go", "internal/sending/dispatcher.go", "internal/sending/lease.go",
	"internal/sending/outbox.go", "internal/sending/ownership.go", "internal/sending/results.go",
	"internal/sending/store_shards.go", "internal/deliveries/result.go", "internal/deliveries/store_recovery.go",
	"internal/sending/wakeup.go",
	"internal/sending/claim.go", "internal/receivers/testcall.go", "internal/receivers/health.go",
	"internal/database/clock*.go", "internal/app/app.go", "internal/console/console.go",
	"internal/tracker/relation.go", "internal/tracker/state.go",
	"internal/scoreboard/fetch/fetch.go", // a provider's Retry-After
	"cmd/api/demo.go", "cmd/api/listen.go",
	"cmd/api/tour.go", "cmd/api/tracker.go",
}

// globals are the constructors whose result may be in a package variable: it never changes.
var globals = []string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "sync.OnceValue", "sync.OnceValues",
	"sync.OnceFunc", "netip.MustParsePrefix", "netip.MustParseAddr", "strings.NewReplacer"}

func TestHouse_libraries_stay_in_their_homes(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || isHelper(path.Dir(f.name)) || strings.HasPrefix(f.name, "deployments/") {
			continue
		}
		for _, imported := range f.imports() {
			for _, home := range homes {
				if strings.HasPrefix(imported, home.library) && !f.matches(home.files) {
					t.Errorf("%s imports %s, whose home is %s", f.name, imported, strings.Join(home.files, ", "))
				}
			}
		}
	}
}

func TestHouse_stores_know_nothing_of_HTTP(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || !f.matches([]string{"internal/*/store*.go", "internal/*/*/store*.go"}) {
			continue
		}
		for _, imported := range f.imports() {
			if imported == "net/http" || imported == module+"internal/httpapi" {
				t.Errorf("%s imports %s", f.name, imported)
			}
		}
	}
}

func TestHouse_times_are_the_databases(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || !strings.HasPrefix(f.name, "cmd/") && !strings.HasPrefix(f.name, "internal/") ||
			isHelper(path.Dir(f.name)) || f.matches(ownClocks) {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && readsClock(s) {
				t.Errorf("%s reads the machine's clock (time.%s): use the database's, or add the file to ownClocks and say why",
					f.name, s.Sel.Name)
			}
			return true
		})
	}
}

func TestHouse_files_and_functions_stay_small(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		longest := longestFile
		if f.test {
			longest = longestTest
		}
		if n := f.set.Position(f.tree.End()).Line; n > longest {
			t.Errorf("%s has %d lines, at most %d", f.name, n, longest)
		}
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || f.test {
				continue
			}
			if n := f.lines(fn); n > longestFunc {
				t.Errorf("%s: %s has %d lines, at most %d", f.name, fn.Name.Name, n, longestFunc)
			}
			if n := branches(fn); n > mostTangled {
				t.Errorf("%s: %s has a cyclomatic complexity of %d, at most %d", f.name, fn.Name.Name, n, mostTangled)
			}
		}
	}
}

func TestHouse_has_no_init_and_no_state_in_package_variables(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || isHelper(path.Dir(f.name)) {
			continue
		}
		written := f.writtenNames()
		for _, d := range f.tree.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				// Parts of the embedded default register themselves where they are linked, as drivers do.
				if d.Recv == nil && d.Name.Name == "init" &&
					!f.matches([]string{"internal/database/sqlite/sqlite.go", "internal/queue/embedded/embedded.go"}) {
					t.Errorf("%s has an init function", f.name)
				}
			case *ast.GenDecl:
				for _, v := range variables(d) {
					if !f.constant(v, written) {
						t.Errorf("%s: package variable %s holds state; pass it in, or make it a constant table", f.name, v.Names[0].Name)
					}
				}
			}
		}
	}
}

func TestHouse_every_package_and_exported_name_is_documented(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		dir := path.Dir(f.name)
		documented[dir] = documented[dir] || f.tree.Doc != nil
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.IsExported() && fn.Doc == nil && exportedReceiver(fn) {
				t.Errorf("%s: %s has no doc comment", f.name, fn.Name.Name)
			}
		}
	}
	for dir, has := range documented {
		if !has {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// source is one parsed file; its name is the path from the root, with slashes.
type source struct {
	name string
	test bool
	set  *token.FileSet
	tree *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	list, err := parsed()
	if err != nil || len(list) == 0 {
		t.Fatalf("%d Go files found: %v", len(list), err)
	}
	return list
}

// parsed reads the files once for all tests, which change nothing of them.
var parsed = sync.OnceValues(func() (list []source, err error) {
	for _, top := range []string{"cmd", "internal", "pkg", "deployments"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(file) != ".go" {
				return err
			}
			set := token.NewFileSet()
			tree, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, file)
			list = append(list, source{filepath.ToSlash(name), strings.HasSuffix(file, "_test.go"), set, tree})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
})

func (f source) imports() []string {
	var list []string
	for _, spec := range f.tree.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil {
			list = append(list, name)
		}
	}
	return list
}

func (f source) matches(patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, f.name)
		return ok && err == nil
	})
}

func (f source) lines(n ast.Node) int {
	return f.set.Position(n.End()).Line - f.set.Position(n.Pos()).Line + 1
}

// writtenNames are the names that some statement of the file assigns to, as a whole, by index or by field.
func (f source) writtenNames() map[string]bool {
	names := map[string]bool{}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.AssignStmt:
			for _, target := range s.Lhs {
				if s.Tok != token.DEFINE {
					names[baseName(target)] = true
				}
			}
		case *ast.IncDecStmt:
			names[baseName(s.X)] = true
		}
		return true
	})
	return names
}

// constant reports whether a package variable never changes: errors, expressions, embedded files, tables that nothing
// writes.
func (f source) constant(v *ast.ValueSpec, written map[string]bool) bool {
	for _, name := range v.Names {
		if name.Name != "_" && written[name.Name] {
			return false
		}
	}
	if len(v.Values) == 0 { // embedded files, and what the linker sets
		selector, ok := v.Type.(*ast.SelectorExpr)
		return ok && baseName(selector) == "embed" || f.embedded(v) || f.name == "internal/telemetry/telemetry.go" &&
			slices.Contains([]string{"version", "commit"}, v.Names[0].Name) ||
			f.name == "internal/database/sqlite.go" && v.Names[0].Name == "embedded" ||
			f.name == "internal/queue/queue.go" && v.Names[0].Name == "inProcess" // as database/sql keeps its drivers
	}
	return !slices.ContainsFunc(v.Values, func(e ast.Expr) bool { return !constantValue(e) })
}

func (f source) embedded(v *ast.ValueSpec) bool {
	for _, d := range f.tree.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Doc != nil && slices.Contains(g.Specs, ast.Spec(v)) {
			return slices.ContainsFunc(g.Doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
		}
	}
	return false
}

func constantValue(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		name := exprName(e.Fun)
		_, conversion := e.Fun.(*ast.ParenExpr)
		_, slice := e.Fun.(*ast.ArrayType)
		return conversion || slice || slices.Contains(globals, name)
	case *ast.UnaryExpr:
		return e.Op != token.AND && constantValue(e.X)
	default: // literals, tables, functions
		return true
	}
}

func exprName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return baseName(e) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

// baseName is the x of x, x.y, x[i] and *x.
func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return baseName(e.X)
	case *ast.IndexExpr:
		return baseName(e.X)
	case *ast.StarExpr:
		return baseName(e.X)
	default:
		return ""
	}
}

func variables(d *ast.GenDecl) []*ast.ValueSpec {
	var list []*ast.ValueSpec
	for _, s := range d.Specs {
		if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR {
			list = append(list, v)
		}
	}
	return list
}

// branches is the cyclomatic complexity; a function literal counts with its function, as gocyclo has it.
func branches(fn *ast.FuncDecl) int {
	n := 1
	ast.Inspect(fn, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

func exportedReceiver(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	receiver := fn.Recv.List[0].Type
	if generic, ok := receiver.(*ast.StarExpr); ok {
		receiver = generic.X
	}
	return ast.IsExported(baseName(receiver))
}

func readsClock(s *ast.SelectorExpr) bool {
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name)
}

func isHelper(dir string) bool {
	return slices.ContainsFunc(helpers, func(h string) bool { return dir == h || strings.HasPrefix(dir, h+"/") })
}
