//go:build unix

// Package running_test runs what deployments/ ships, by the lines of the guides: `make test-deployments`. No kubelet,
// network policy, KEDA operator or cloud balancer is in it.
package running_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// machine is where checks/machine.sh has put engine, tools and images.
type machine struct {
	t   *testing.T
	dir string
	env []string
}

func newMachine(t *testing.T) machine {
	t.Helper()
	dir := os.Getenv("SUPPLYHUB_TEST_DEPLOYMENTS")
	if dir == "" {
		t.Skip("make test-deployments runs it")
	}
	return machine{t, dir, os.Environ()}
}

func (m machine) tree(path ...string) string {
	return filepath.Join(append([]string{m.dir, "tree"}, path...)...)
}

// document returns a guide's path.
func document(name string) string { return filepath.Join("..", name) }

// typed runs lines as a person types them in the tree, and shows them with what they print and the seconds.
func (m machine) typed(lines string) (printed string) {
	m.t.Helper()
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line != "" {
			printed += m.run(m.tree(), "sh", "-euc", line)
		}
	}
	return printed
}

func (m machine) run(dir, name string, args ...string) (printed string) {
	m.t.Helper()
	out, err := m.try(dir, name, args...)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (m machine) try(dir, name string, args ...string) (printed string, err error) {
	m.t.Helper()
	began := time.Now()
	printed, err = m.quietly(dir, name, args...)
	m.t.Logf("%.1f s: %s %s\n%s", time.Since(began).Seconds(), name, strings.Join(args, " "), tail(printed))
	return printed, err
}

// quietly is try for what is asked again and again.
func (m machine) quietly(dir, name string, args ...string) (printed string, err error) {
	cmd := exec.CommandContext(context.WithoutCancel(m.t.Context()), name, args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, m.env, &out, &out
	err = cmd.Run()
	return out.String(), err
}

// tail returns the last lines that were printed.
func tail(text string) string {
	const shown = 6
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-shown):], "\n")
}
