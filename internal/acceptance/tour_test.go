package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// newcomer is a directory with bin/api and a running `bin/api serve --demo`.
type newcomer struct {
	dir, receiver string
	url, printed  string // where it serves, and what it printed
	stop          func()
}

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	n := &newcomer{dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(n.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(apptest.Binary(t, "api"), filepath.Join(n.dir, "bin", "api")); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.receiver = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	n.serve(t)
	return n
}

// serve starts the service and reads what it prints until the tour is over.
func (n *newcomer) serve(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, "bin/api", "serve", "--demo")
	cmd.Dir = n.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HTTP_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0", "DRAIN_DELAY=0s"}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var logs bytes.Buffer
	cmd.Stderr = &logs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		text.WriteString(scanner.Text() + "\n")
		if strings.Contains(scanner.Text(), "Stop with Ctrl-C") {
			break
		}
	}
	ended := false
	n.stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("exit code %d:\n%s", code, &logs)
		}
	}
	t.Cleanup(n.stop)
	n.printed = text.String()
	if n.url = regexp.MustCompile(`http://[0-9.]+:[0-9]+`).FindString(n.printed); n.url == "" {
		t.Fatalf("it printed\n%s\n%s", n.printed, &logs)
	}
}

// walk types the lines into one shell; `listen` goes on in a terminal of its own. It returns what both showed.
func (n *newcomer) walk(t *testing.T, commands []string) (shown, received string) {
	t.Helper()
	script := "set -eu\n"
	for _, command := range commands {
		command = strings.NewReplacer("http://localhost:8080", n.url, "127.0.0.1:7001", n.receiver).Replace(command)
		if strings.Contains(command, "bin/api listen") {
			if !strings.Contains(command, n.receiver) {
				command += " --addr " + n.receiver
			}
			command += " >received 2>listening & listener=$!\n" +
				"trap 'kill $listener' EXIT; until grep -q listening listening; do kill -0 $listener; sleep 0.1; done"
		}
		script += command + "\n"
	}
	script += "until grep -q signature received; do kill -0 $listener; sleep 0.1; done\n"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir, cmd.Env = n.dir, []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	calls, _ := os.ReadFile(filepath.Join(n.dir, "received"))
	if err != nil {
		t.Fatalf("%v\n%s\n--\n%s\n--\n%s", err, script, out, calls)
	}
	return string(out), string(calls)
}

// commandsOf are the lines behind a mark, each with the lines that continue it.
func commandsOf(text, mark string) []string {
	var commands []string
	going := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		rest, marked := strings.CutPrefix(line, mark)
		switch {
		case going:
			commands[len(commands)-1] += "\n" + line
		case marked && !strings.HasPrefix(rest, "#"):
			commands = append(commands, rest)
		default:
			continue
		}
		going = strings.HasSuffix(line, `\`)
	}
	return commands
}

func wantTour(t *testing.T, shown, received string) {
	t.Helper()
	for _, want := range []string{`{"status":"enqueued",`, `"status":"estimated"`, `{"status":"selected",`, "delivered",
		"STATUS"} {
		if !strings.Contains(shown, want) {
			t.Errorf("nothing shows %s:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "}{") || strings.Contains(shown, "}ID") {
		t.Errorf("an answer does not end its line:\n%s", shown)
	}
	if !strings.Contains(received, "signature   holds") || strings.Contains(received, "DOES NOT") ||
		!strings.Contains(received, "material_request.estimated") {
		t.Errorf("the receiver printed\n%s", received)
	}
}

func TestTour_of_the_README_runs_as_it_is_printed(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "## Five minutes")
	tour, _, ended := strings.Cut(rest, "\n## ")
	if !found || !ended {
		t.Fatal("README.md has no chapter Five minutes")
	}
	n := newNewcomer(t)
	shown, received := n.walk(t, commandsOf(tour, "$ "))
	wantTour(t, shown, received)
	if !strings.Contains(shown, `"pointer":"/materials/0/width"`) {
		t.Errorf("the violations are missing:\n%s", shown)
	}
}

func TestTour_of_the_demo_runs_as_it_is_printed(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	shown, received := n.walk(t, commandsOf(n.printed, "  "))
	wantTour(t, shown, received)
	if !strings.Contains(shown, `"ShortMessage":"SCOREBOARD"`) || !strings.Contains(shown, `"match_id"`) {
		t.Errorf("no scoreboard:\n%s", shown)
	}
	if !strings.Contains(n.printed, "WEBHOOK_ALLOW_PRIVATE=true") {
		t.Errorf("that private receivers are allowed is not said:\n%s", n.printed)
	}
}

func TestDemo_keeps_its_key_over_restarts(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	credentials := func() string {
		return strings.Join(regexp.MustCompile(`hub_sk_\w+|whsec_\S+|sup_\w+`).FindAllString(n.printed, -1), " ")
	}
	first := credentials()
	for range 2 {
		n.stop()
		n.serve(t)
		if got := credentials(); got != first || got == "" {
			t.Fatal("another key is printed")
		}
	}
	info, err := os.Stat(filepath.Join(n.dir, "data", "demo.env"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	text, err := os.ReadFile(filepath.Join(n.dir, "data", "demo.env"))
	if err != nil || !strings.Contains(string(text), strings.Fields(first)[0]) {
		t.Fatal("the file does not hold the printed key")
	}
}
