// Package deployments_test keeps what stands beside the code true: files that no compiler reads.
package deployments_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v4"

	"github.com/supplyhub/supplyhub/internal/config"
)

var update = flag.Bool("update", false, "write README.md's table of variables")

func TestYAML_parses(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"compose.yaml", "lint/golangci.yml"} {
		var document map[string]any
		if err := yaml.Unmarshal(read(t, file), &document); err != nil || len(document) == 0 {
			t.Errorf("%s: %v, %d keys", file, err, len(document))
		}
	}
}

func TestCompose_sets_only_variables_that_exist(t *testing.T) {
	t.Parallel()
	var compose struct {
		Service struct {
			Environment map[string]string `yaml:"environment"`
		} `yaml:"x-service"`
		Services map[string]any `yaml:"services"`
	}
	if err := yaml.Unmarshal(read(t, "compose.yaml"), &compose); err != nil {
		t.Fatal(err)
	}
	for name := range compose.Service.Environment {
		if !slices.Contains(variables(), name) {
			t.Errorf("compose.yaml sets %s, which no binary reads", name)
		}
	}
	for _, name := range []string{"postgres", "nats", "api-1", "api-2", "worker", "proxy"} {
		if _, ok := compose.Services[name]; !ok {
			t.Errorf("compose.yaml has no service %s", name)
		}
	}
	if len(compose.Service.Environment) < 5 {
		t.Errorf("compose.yaml sets only %d variables", len(compose.Service.Environment))
	}
}

func TestEnvExample_names_every_variable_that_compose_asks_for(t *testing.T) {
	t.Parallel()
	names := func(text []byte, pattern string) []string {
		var list []string
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			list = append(list, string(match[1]))
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	asked := names(read(t, "compose.yaml"), `\$\{([A-Z_]+)`)
	given := names(read(t, ".env.example"), `(?m)^([A-Z_]+)=`)
	if len(asked) == 0 || !slices.Equal(asked, given) {
		t.Errorf("compose.yaml asks for %v, .env.example names %v", asked, given)
	}
}

func TestNATSConf_is_valid_and_keeps_a_store(t *testing.T) {
	t.Parallel()
	options, err := server.ProcessConfigFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !options.JetStream || options.StoreDir == "" || options.JetStreamMaxStore < 2<<30 || options.Port != 4222 {
		t.Errorf("JetStream %t in %q with %d bytes on port %d", options.JetStream, options.StoreDir, options.JetStreamMaxStore, options.Port)
	}
}

// The table stands between two comments in README.md; `make readme` writes it.
func TestReadme_has_the_table_of_variables(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- variables: written by make readme -->\n", "<!-- end of variables -->"
	content := read(t, "../README.md")
	before, rest, found := bytes.Cut(content, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		t.Fatalf("README.md must have the lines %q and %q", strings.TrimSpace(begin), end)
	}
	var table bytes.Buffer
	if err := config.PrintMarkdown(&table); err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(before, []byte(begin), table.Bytes(), []byte(end), after)
	if bytes.Equal(content, want) {
		return
	}
	if !*update {
		t.Fatal("README.md's table of variables is not internal/config's: run `make readme`")
	}
	if err := os.WriteFile("../README.md", want, 0o644); err != nil {
		t.Fatal(err)
	}
}

func variables() []string {
	var names []string
	for _, v := range config.Variables() {
		names = append(names, v.Name)
	}
	return names
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
	if err := decoder.Decode(&request); err != nil || request.ID == nil || request.ShopCode == "" || len(request.Materials) == 0 {
		t.Errorf("%v, %+v", err, request)
	}
}
