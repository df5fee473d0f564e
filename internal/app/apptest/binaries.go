package apptest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var builds sync.Map // build → func() (path string, err error), built once a test process

// build is a binary and whether it is of the next version.
type build struct {
	name string
	next bool
}

// Binary builds cmd/<name> once and returns its path. SUPPLYHUB_TEST_RACE=1 builds it with the race detector.
func Binary(tb testing.TB, name string) string {
	tb.Helper()
	return build{name: name}.path(tb)
}

func (h *Hub) binary(name string) string {
	h.tb.Helper()
	return build{name, h.Next}.path(h.tb)
}

func (b build) path(tb testing.TB) string {
	tb.Helper()
	once, _ := builds.LoadOrStore(b, sync.OnceValues(b.make))
	path, err := once.(func() (string, error))()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

func (b build) make() (string, error) {
	dir := filepath.Join(root(), "bin", "test")
	// as the Makefile, and with what internal/database/faults_built.go lets a test do
	args := []string{"build", "-tags", "nomsgpack,faults"}
	if os.Getenv("SUPPLYHUB_TEST_RACE") != "" {
		args = append(args, "-race")
		dir += "-race"
	}
	if b.next {
		dir += "-next"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	final := filepath.Join(dir, b.name)
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if b.next {
		overlay, err := nextMigration(tmp)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	_ = os.Link(final, filepath.Join(tmp, b.name)) // the linker leaves alone what is up to date; there may be none yet
	cmd := exec.Command("go", append(args, "-o", filepath.Join(tmp, b.name), "./cmd/"+b.name)...)
	cmd.Dir = root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", &exec.Error{Name: "go build ./cmd/" + b.name + ": " + string(out), Err: err}
	}
	return final, os.Rename(filepath.Join(tmp, b.name), final)
}

// nextMigration writes what `go build -overlay` takes into the directory: this tree with one more migration.
func nextMigration(dir string) (overlay string, err error) {
	const up = `-- +goose Up
ALTER TABLE material_requests ADD COLUMN next text;
ALTER TABLE webhook_deliveries ADD COLUMN next text;
`
	added := filepath.Join(dir, "next.sql")
	if err := os.WriteFile(added, []byte(up), 0o600); err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, engine := range []string{"postgres", "sqlite"} {
		migrations := filepath.Join(root(), "internal", "database", "migrations", engine)
		there, err := os.ReadDir(migrations) // one a number
		if err != nil {
			return "", err
		}
		replace[filepath.Join(migrations, fmt.Sprintf("%04d_next.sql", len(there)+1))] = added
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, content, 0o600)
}
