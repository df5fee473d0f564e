package apptest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var releases sync.Mutex // tests of one process ask for the same release at once

// Release returns the directory of the binaries of an earlier commit, built once a tree. Where the history here does
// not have the commit the test is skipped, aloud.
func Release(tb testing.TB, commit string) string {
	tb.Helper()
	if out, err := run(root(), "git", "cat-file", "-e", commit+"^{commit}"); err != nil {
		tb.Skipf("no history with %s here, the upgrade from it was NOT tested: %v %s", commit, err, out)
	}
	releases.Lock()
	defer releases.Unlock()
	made := filepath.Join(root(), "bin", "test", commit)
	if _, err := os.Stat(made); err == nil {
		return made
	}
	source, next := tb.TempDir(), fmt.Sprintf("%s-%d", made, os.Getpid())
	if out, err := run(root(), "sh", "-c", `git archive "$0" | tar -x -C "$1"`, commit, source); err != nil {
		tb.Fatalf("check %s out: %v %s", commit, err, out)
	}
	if out, err := run(source, "go", "build", "-o", next+"/", "./cmd/api", "./cmd/worker"); err != nil {
		tb.Fatalf("build %s: %v %s", commit, err, out)
	}
	if err := os.Rename(next, made); err != nil {
		tb.Fatal(err)
	}
	return made
}

func run(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}
