// Package deployments_test keeps what is next to the code true: files that no compiler reads.
package deployments_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/supplyhub/supplyhub/internal/config"
)

func TestYAML_parses(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"lint/golangci.yml"} {
		var document map[string]any
		if err := yaml.Unmarshal(read(t, file), &document); err != nil || len(document) == 0 {
			t.Errorf("%s: %v, %d keys", file, err, len(document))
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestSamples_are_material_requests(t *testing.T) {
	t.Parallel()
	var request struct {
		ID        *int64 `json:"id"`
		ShopCode  string `json:"shop_code"`
		Materials []struct {
			SKU      string `json:"sku"`
			Quantity int    `json:"quantity"`
		} `json:"materials"`
	}
	decoder := json.NewDecoder(bytes.NewReader(read(t, "samples/material-request.json")))
	if err := decoder.Decode(&request); err != nil || request.ID == nil || request.ShopCode == "" ||
		len(request.Materials) == 0 {
		t.Errorf("%v, %+v", err, request)
	}
}

// files are the repository's, by their paths from here, without what is built and fetched: other tests do so meanwhile.
func files(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case entry.IsDir() && slices.Contains([]string{".git", ".fuzz", "bin", "data", "node_modules"}, entry.Name()):
			return fs.SkipDir
		case err == nil && !entry.IsDir():
			all = append(all, filepath.ToSlash(file))
		}
		return err
	})
	if err != nil || len(all) < 500 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	return all
}

// Tests that RELIABILITY.md and SECURITY.md name test what these promise.
func TestDocuments_name_tests_that_there_are(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, file := range files(t) {
		if strings.HasSuffix(file, "_test.go") {
			for _, found := range declared.FindAllSubmatch(read(t, file), -1) {
				tests[string(found[1])] = true
			}
		}
	}
	for _, document := range []string{"../RELIABILITY.md", "../SECURITY.md"} {
		named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)[`/]").FindAllSubmatch(read(t, document), -1)
		if len(named) < 10 {
			t.Errorf("%s names only %d tests", document, len(named))
		}
		for _, name := range named {
			if !tests[string(name[1])] {
				t.Errorf("%s names %s, which is no test", document, name[1])
			}
		}
	}
}

// A link between the documents points at a file, and at a heading of it.
func TestDocuments_link_to_what_there_is(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../*.md")
	guides, err2 := filepath.Glob("*.md")
	if err := errors.Join(err, err2); err != nil || len(documents) < 6 || len(guides) < 5 {
		t.Fatalf("%v: %v, %v", err, documents, guides)
	}
	link := regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	for _, document := range append(documents, guides...) {
		for _, found := range link.FindAllStringSubmatch(string(read(t, document)), -1) {
			target := found[1]
			if strings.HasPrefix(target, "http") {
				continue
			}
			file := filepath.Join(filepath.Dir(document), target)
			if target == "" {
				file = document
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", document, target, err)
			} else if found[2] != "" && !slices.Contains(anchors(string(read(t, file))), found[2]) {
				t.Errorf("%s links to %s%s, which is no heading", document, target, found[2])
			}
		}
	}
}

// anchors are what a document's headings are linked by.
func anchors(text string) (all []string) {
	for _, found := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		kept := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(found[1]), "")
		all = append(all, "#"+strings.ReplaceAll(kept, " ", "-"))
	}
	return all
}

// A file of the code that a document names is there.
func TestDocuments_name_files_that_there_are(t *testing.T) {
	t.Parallel()
	files := files(t)
	documents, err := filepath.Glob("../*.md")
	if err != nil || len(documents) < 6 {
		t.Fatalf("%v: %v", err, documents)
	}
	named := regexp.MustCompile("`([a-z0-9_][a-z0-9_./]*\\.(?:go|html|json|yaml|sql))`")
	for _, document := range documents {
		for _, found := range named.FindAllStringSubmatch(string(read(t, document)), -1) {
			if !slices.ContainsFunc(files, func(file string) bool { return strings.HasSuffix(file, "/"+found[1]) }) {
				t.Errorf("%s names %s, which is no file", document, found[1])
			}
		}
	}
}

// documents returns everything that is written for people who use, operate or change the service, by file.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"../*.md", "*.md", "samples/*.md", "../internal/httpapi/docs/*.html"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			all[file] = string(read(t, file))
		}
	}
	return all
}

// Commands that no test can run here, such as those of Docker, have targets, variables, files and services that there
// are; those of bin/api are checked next to the commands.
func TestDocuments_name_make_targets_and_variables_that_there_are(t *testing.T) {
	t.Parallel()
	makefile, scripts := string(read(t, "../Makefile")), ""
	for _, file := range []string{"compose.yaml", "env.sh", "demo/demo.sh", "samples/python/supplier.py",
		"postgres-logins.sql", "../internal/httpapi/docs/receiver/receiver.py", "../internal/app/apptest/browser/browser.go",
	} {
		scripts += string(read(t, file))
	}
	target := regexp.MustCompile("(?:^|[`\n(]|`[A-Z_]+=\\S+ )make ([a-z][a-z-]*)((?: [a-z][a-z-]*)*)")
	variable := regexp.MustCompile("`(?:export )?([A-Z]+(?:_[A-Z]+)+)[`=]|(?m)^(?:export )?([A-Z]+(?:_[A-Z]+)+)=")
	targets, variableCount := 0, 0
	for file, text := range documents(t) {
		for _, found := range target.FindAllStringSubmatch(text, -1) {
			for _, name := range strings.Fields(found[1] + found[2]) {
				if targets++; !strings.Contains(makefile, "\n"+name+":") {
					t.Errorf("%s: there is no target %q: %q", file, name, found[0])
				}
			}
		}
		for _, found := range variable.FindAllStringSubmatch(text, -1) {
			name := found[1] + found[2]
			known := slices.Contains(config.Variables(), name) || slices.Contains(ofLibraries, name) ||
				regexp.MustCompile(`\b`+name+`\b`).MatchString(makefile+scripts)
			if variableCount++; !known && !slices.Contains(ofTheReader, name) {
				t.Errorf("%s: no part reads %s", file, name)
			}
		}
	}
	if targets < 20 || variableCount < 60 {
		t.Errorf("only %d targets and %d variables were found", targets, variableCount)
	}
}

// ofTheReader are variables that the guides' own commands set and use, that net/http reads, and names that only look
// like variables.
var ofTheReader = []string{"OWNER_URL", "DOCKER_BUILDKIT", "HTTPS_PROXY", "NO_PROXY"}

// Each part of a pattern of -run chooses a test in one of the packages that are named with it.
func TestDocuments_choose_tests_that_there_are(t *testing.T) {
	t.Parallel()
	declared, checked := regexp.MustCompile(`(?m)^func (Test\w+)\(`), 0
	command := regexp.MustCompile("-run '?([^' `]+)'?((?: \\./[a-z/]+)+)")
	for file, text := range documents(t) {
		for _, found := range command.FindAllStringSubmatch(text, -1) {
			tests := ""
			for _, dir := range strings.Fields(found[2]) {
				files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					for _, name := range declared.FindAllSubmatch(read(t, file), -1) {
						tests += string(name[1]) + "\n"
					}
				}
			}
			pattern, _, _ := strings.Cut(strings.ReplaceAll(found[1], `\|`, "|"), "/")
			for _, part := range strings.Split(pattern, "|") {
				if checked++; !regexp.MustCompile("(?m)" + part).MatchString(tests) {
					t.Errorf("%s: %q chooses no test in%s", file, part, found[2])
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d patterns were found", checked)
	}
}

// Compose itself is not on every machine: its files, services and flags are compared with what there is.
func TestDocuments_call_compose_with_services_that_there_are(t *testing.T) {
	t.Parallel()
	services, checked := compose(t).Services, 0
	for file, text := range documents(t) {
		for line := range strings.Lines(text) {
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "docker" && words[0] != "sh" && words[0] != "helm" {
				continue
			}
			checked++
			for i, word := range words {
				name, _, _ := strings.Cut(word, "=")
				if (words[max(i-1, 0)] == "--scale" || words[max(i-1, 0)] == "--rm") && services[name].Image == "" {
					t.Errorf("%s: compose.yaml has no service %q: %s", file, name, line)
				}
				if path, ok := strings.CutPrefix(word, "deployments/"); ok {
					if _, err := os.Stat(path); err != nil {
						t.Errorf("%s: %v: %s", file, err, line)
					}
				}
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d commands were found", checked)
	}
}
