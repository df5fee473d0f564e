package apptest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var builds sync.Map // name → func() (path string, err error), built once a test process

// Binary builds cmd/<name> once and returns its path. SUPPLYHUB_TEST_RACE=1 builds it with the race detector.
func Binary(tb testing.TB, name string) string {
	tb.Helper()
	once, _ := builds.LoadOrStore(name, sync.OnceValues(func() (string, error) { return build(name) }))
	path, err := once.(func() (string, error))()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

func build(name string) (string, error) {
	dir := filepath.Join(root(), "bin", "test")
	// as the Makefile, and with what internal/database/faults_built.go lets a test do
	args := []string{"build", "-tags", "nomsgpack,faults"}
	if os.Getenv("SUPPLYHUB_TEST_RACE") != "" {
		args = append(args, "-race")
		dir += "-race"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	final := filepath.Join(dir, name)
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	_ = os.Link(final, filepath.Join(tmp, name)) // the linker leaves alone what is up to date; there may be none yet
	cmd := exec.Command("go", append(args, "-o", filepath.Join(tmp, name), "./cmd/"+name)...)
	cmd.Dir = root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", &exec.Error{Name: "go build ./cmd/" + name + ": " + string(out), Err: err}
	}
	return final, os.Rename(filepath.Join(tmp, name), final)
}
