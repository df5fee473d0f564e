// Package deployments_test keeps what is beside the code true: files that no compiler reads.
package deployments_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/supplyhub/supplyhub/internal/config"
)

var update = flag.Bool("update", false, "write configuration.md's table of variables")

func TestYAML_parses(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"lint/golangci.yml"} {
		var document map[string]any
		if err := yaml.Unmarshal(read(t, file), &document); err != nil || len(document) == 0 {
			t.Errorf("%s: %v, %d keys", file, err, len(document))
		}
	}
}

// The table is between two comments in configuration.md; `make readme` writes it.
func TestConfiguration_has_the_table_of_variables(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- variables: written by make readme -->\n", "<!-- end of variables -->"
	content := read(t, "configuration.md")
	before, rest, found := bytes.Cut(content, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		t.Fatalf("configuration.md must have the lines %q and %q", strings.TrimSpace(begin), end)
	}
	table := bytes.NewBufferString("| variable | default | meaning |\n| --- | --- | --- |\n")
	for _, v := range config.Variables() {
		fmt.Fprintf(table, "| `%s` | %s | %s |\n", v.Name, v.Default, v.Doc)
	}
	want := slices.Concat(before, []byte(begin), table.Bytes(), []byte(end), after)
	if bytes.Equal(content, want) {
		return
	}
	if !*update {
		t.Fatal("configuration.md's table of variables is not internal/config's: run `make readme`")
	}
	if err := os.WriteFile("configuration.md", want, 0o644); err != nil {
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
	if err := decoder.Decode(&request); err != nil || request.ID == nil || request.ShopCode == "" ||
		len(request.Materials) == 0 {
		t.Errorf("%v, %+v", err, request)
	}
}
