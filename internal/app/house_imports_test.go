package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestHouse_packages_import_only_whom_they_may(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		allowed, known := edges[name]
		if !known {
			t.Errorf("%s: a package that the table of edges does not know", name)
			continue
		}
		for _, imported := range p.Imports {
			target, own := strings.CutPrefix(imported, module)
			if own && !slices.Contains(allowed, target) {
				t.Errorf("%s imports %s", name, target)
			}
		}
	}
}

func TestHouse_has_no_unused_edge(t *testing.T) {
	t.Parallel()
	imports := map[string][]string{}
	for _, p := range packages(t) {
		imports[strings.TrimPrefix(p.ImportPath, module)] = p.Imports
	}
	for name, allowed := range edges {
		used, exists := imports[name]
		if !exists {
			t.Errorf("the table of edges names %s, which is no package", name)
		}
		for _, target := range allowed {
			if !slices.Contains(used, module+target) {
				t.Errorf("%s may import %s and does not: take the edge out", name, target)
			}
		}
	}
}

func TestHouse_no_chain_of_imports_is_longer_than_seven_packages(t *testing.T) {
	t.Parallel()
	imports := map[string][]string{}
	for _, p := range packages(t) {
		imports[p.ImportPath] = p.Imports
	}
	chains := map[string][]string{} // the longest that begins with each package
	var chainOf func(string) []string
	chainOf = func(name string) []string {
		if chain, known := chains[name]; known {
			return chain
		}
		var longest []string
		for _, target := range imports[name] {
			if _, own := imports[target]; own {
				if chain := chainOf(target); len(chain) > len(longest) {
					longest = chain
				}
			}
		}
		chains[name] = append([]string{strings.TrimPrefix(name, module)}, longest...)
		return chains[name]
	}
	for name := range imports {
		if chain := chainOf(name); len(chain) > longestChain {
			t.Errorf("%d packages, at most %d: %s", len(chain), longestChain, strings.Join(chain, " → "))
		}
	}
}

func TestHouse_the_published_packages_import_nothing_internal(t *testing.T) {
	t.Parallel()
	dependOnNone(t, "pkg/", func(dependency string) bool { return strings.HasPrefix(dependency, module+internalDir) })
}

func TestHouse_nothing_for_tests_reaches_the_binaries(t *testing.T) {
	t.Parallel()
	dependOnNone(t, "cmd/", func(dependency string) bool {
		return dependency == "testing" || isHelper(strings.TrimPrefix(dependency, module))
	})
}

// dependOnNone fails for each package of the folder that depends, over others too, on a refused one.
func dependOnNone(t *testing.T, folder string, refused func(dependency string) bool) {
	t.Helper()
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, module+folder) {
			continue
		}
		for _, dependency := range p.Deps {
			if refused(dependency) {
				t.Errorf("%s depends on %s", p.ImportPath, dependency)
			}
		}
	}
}

// goPackage is what `go list` prints of a package.
type goPackage struct {
	ImportPath    string
	Imports, Deps []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		t.Fatal("go list found no package")
	}
	return list
}
