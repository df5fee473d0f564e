package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// lockedBuffer keeps what a process writes while it is read.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// newcomer is a directory with bin/api and a running `bin/api serve --demo`.
type newcomer struct {
	dir, receiver string
	url, printed  string // where it serves, and what it printed
	logged        string // until then
	stop          func()
}

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	n := built(t, "api")
	n.serve(t)
	return n
}

// built returns a directory as a checkout is after `make build`, in which nothing runs yet.
func built(t *testing.T, binaries ...string) *newcomer {
	t.Helper()
	n := &newcomer{dir: t.TempDir(), receiver: freeAddress(t)}
	if err := os.Mkdir(filepath.Join(n.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range binaries {
		if err := os.Symlink(apptest.Binary(t, name), filepath.Join(n.dir, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
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
	var logs lockedBuffer
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
	n.printed, n.logged = text.String(), logs.String()
	if n.url = regexp.MustCompile(`http://[0-9.]+:[0-9]+`).FindString(n.printed); n.url == "" {
		t.Fatalf("it printed\n%s\n%s", n.printed, &logs)
	}
}

// run has a shell run the script in the newcomer's directory. It returns what the shell printed on its standard output.
func (n *newcomer) run(t *testing.T, script string, shell ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell[0], shell[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = n.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir}, strings.NewReader(script)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n--\n%s\n--\n%s\n--\n%s", err, script, out, &said, n.received())
	}
	return string(out)
}

// received is what the receiver of the walk printed.
func (n *newcomer) received() string {
	calls, _ := os.ReadFile(filepath.Join(n.dir, "received"))
	return string(calls)
}

// here has a text of the documents name this service, this receiver and this directory.
func (n *newcomer) here(t *testing.T, text string) string {
	t.Helper()
	samples, err := filepath.Abs(repository("deployments", "samples"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("http://localhost:8080", n.url, "https://hub.example", n.url, "127.0.0.1:7001", n.receiver,
		"deployments/samples/", samples+"/").Replace(text)
}

// inThirdTerminal has `api listen` go on while the shell goes on, which then waits until it listens.
func (n *newcomer) inThirdTerminal(command string) string {
	if !strings.Contains(command, n.receiver) {
		command += " --addr " + n.receiver
	}
	return command + " >received 2>listening & listener=$!\n" +
		"trap 'kill $listener' EXIT; until grep -q listening listening; do kill -0 $listener || exit 1; sleep 0.1; done"
}

// untilReceived ends when the receiver has checked a signature.
const untilReceived = "\nuntil grep -q signature received; do kill -0 $listener || exit 1; sleep 0.1; done\nexit 0\n"

// A step of a document: what is typed, and what the document shows of the output, which may be nothing.
type step struct{ commands, output string }

// fence is a block of code in Markdown, page one in HTML, and typed how a command begins there.
var (
	fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
	page  = regexp.MustCompile(`(?s)<pre><code>(.*?)</code></pre>`)
	typed = regexp.MustCompile(`^(?:[A-Z]+=\$\()?(?:curl|bin/api) `)
)

// stepsOf returns the steps of a Markdown text, commands being in blocks of sh, or of a page of HTML, where a command
// begins with its program.
func stepsOf(text string) (steps []step) {
	add := func(isCommand bool, block string) {
		if isCommand {
			steps = append(steps, step{commands: strings.TrimSpace(block)})
		} else if len(steps) > 0 {
			steps[len(steps)-1].output = block
		}
	}
	for _, found := range fence.FindAllStringSubmatch(text, -1) {
		add(found[1] == "sh", found[2])
	}
	for _, found := range page.FindAllStringSubmatch(text, -1) {
		block := html.UnescapeString(found[1])
		add(typed.MatchString(block), block)
	}
	return steps
}

// walk types the steps into one shell and compares what it prints with what the document shows, where … is anything and
// white space is nothing.
func (n *newcomer) walk(t *testing.T, steps []step) (shown string) {
	t.Helper()
	script := "set -eu\n"
	for _, s := range steps {
		lines := strings.Split(n.here(t, s.commands), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "bin/api listen") {
				lines[i] = n.inThirdTerminal(line)
			}
		}
		script += strings.Join(lines, "\n") + "\nprintf '\\036'\n"
	}
	if strings.Contains(script, "listener=") {
		script += untilReceived
	}
	shown = n.run(t, script, "sh")
	parts := strings.Split(shown, "\036")
	if len(parts) < len(steps) {
		t.Fatalf("%d steps printed %d parts:\n%s", len(steps), len(parts), shown)
	}
	for i, s := range steps {
		if s.output != "" && !outputOf(s.output).MatchString(bare(parts[i])) {
			t.Errorf("the document shows\n%s\nbut this prints something else:\n%s\n%s", s.output, s.commands, parts[i])
		}
	}
	return shown
}

func outputOf(documented string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(bare(documented)), "…", ".*") + "$")
}

// bare is a text without white space.
func bare(text string) string { return strings.Join(strings.Fields(text), "") }

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

// chapter returns what is between the heading and the next one of its rank; of a page all of it.
func chapter(t *testing.T, file, heading string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), heading)
	if !found {
		t.Fatalf("%s has no %q", file, heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

func TestTour_of_the_README_runs_as_it_is_written_and_prints_what_it_shows(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	steps := stepsOf(chapter(t, "../../README.md", "## Five minutes"))
	shown := n.walk(t, steps)
	wantTour(t, shown, n.received())
	if outputs := slices.DeleteFunc(steps, func(s step) bool { return s.output == "" }); len(outputs) != 4 {
		t.Errorf("%d outputs are compared", len(outputs))
	}
}

// The pages and the guide show commands to operators, and what these print.
func TestDocuments_commands_print_what_the_documents_show(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	value := regexp.MustCompile(`(?m)^(id|api_key) +(\S+)$`)
	var client, key string
	// A page shows the call before the commands that make its key.
	text, _, _ := strings.Cut(chapter(t, "../httpapi/docs/trackers.html", "<h1>"), viewsOfYourOwn)
	trackers := stepsOf(text)
	if len(trackers) != 3 {
		t.Fatalf("trackers.html has %d steps", len(trackers))
	}
	for _, found := range value.FindAllStringSubmatch(n.walk(t, trackers[1:2]), -1) {
		if found[1] == "id" {
			client = found[2]
		} else {
			key = found[2]
		}
	}
	for _, s := range []step{trackers[2], trackers[0]} {
		s.commands = strings.NewReplacer("trk_…", client, "hub_ck_…", key).Replace(s.commands)
		n.walk(t, []step{s})
	}
	for file, steps := range map[string]int{"../httpapi/docs/scoreboard.html": 2,
		"../../deployments/configuration.md": 1} {
		got := stepsOf(chapter(t, file, ""))
		if len(got) != steps {
			t.Errorf("%s has %d steps, not %d", file, len(got), steps)
		}
		n.walk(t, got)
	}
}

// A supplier's first afternoon: the page of material requests, typed as it is.
func TestDocuments_material_requests_run_as_they_are_written(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	settings, err := os.ReadFile(filepath.Join(n.dir, "data", "demo.env"))
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`hub_sk_[^\s'"]+`).FindString(string(settings))
	steps := stepsOf(strings.ReplaceAll(chapter(t, "../httpapi/docs/requests.html", "<h1>"), "hub_sk_…", key))
	outputs := 0
	for _, s := range steps {
		if s.output != "" {
			outputs++
		}
	}
	if len(steps) != 7 || outputs != 6 || key == "" {
		t.Errorf("%d steps with %d outputs, key %t", len(steps), outputs, key != "")
	}
	n.walk(t, steps)
}

// The shells that people paste into. bash without interactive comments reads as zsh does, which is not everywhere.
func TestTour_of_the_demo_runs_when_it_is_pasted_into(t *testing.T) {
	t.Parallel()
	for name, shell := range map[string][]string{"bash": {"bash", "--norc", "-i"},
		"bash without comments": {"bash", "--norc", "+O", "interactive_comments", "-i"}, "zsh": {"zsh", "-f", "-i"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell[0]); err != nil && name == "zsh" {
				t.Skip("zsh is not installed: bash without comments reads as it does")
			}
			n := newNewcomer(t)
			_, tour, _ := strings.Cut(n.printed, "In another terminal:\n")
			tour, rest, found := strings.Cut(tour, "\nReceivers at private addresses are allowed")
			if !found || !strings.Contains(rest, "WEBHOOK_ALLOW_PRIVATE=true") {
				t.Fatalf("that private receivers are allowed is not said:\n%s", n.printed)
			}
			lines := strings.Split(n.here(t, tour), "\n")
			for i, line := range lines {
				if strings.Contains(line, "bin/api listen") {
					lines[i] = n.inThirdTerminal(line)
				}
			}
			shown := n.run(t, strings.Join(lines, "\n")+untilReceived, shell...)
			wantTour(t, shown, n.received())
			if !strings.Contains(shown, `"ShortMessage":"SCOREBOARD"`) || !strings.Contains(shown, `"match_id"`) {
				t.Errorf("no scoreboard:\n%s", shown)
			}
		})
	}
}

func TestDemo_prints_its_links_and_little_before_the_tour(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	for _, link := range []string{n.url + "/docs", n.url + "/portal/", "/console"} {
		if !strings.Contains(n.printed, link) {
			t.Errorf("it prints no %s:\n%s", link, n.printed)
		}
	}
	before, _, _ := strings.Cut(n.printed, "supplyhub is ready")
	if lines := strings.Count(before+n.logged, "\n"); lines > 10 || lines == 0 {
		t.Errorf("%d lines are before the tour:\n%s%s", lines, before, n.logged)
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
	named := strings.Fields(first)
	n.run(t, "bin/api supplier rotate-webhook-secret --overlap 0s "+named[slices.IndexFunc(named, func(text string) bool {
		return strings.HasPrefix(text, "sup_")
	})], "sh")
	rotated := ""
	for range 2 {
		n.stop()
		n.serve(t)
		secret := regexp.MustCompile(`whsec_\S+`).FindString(n.printed)
		if !strings.Contains(n.printed, named[0]) || strings.Contains(first, secret) || rotated != "" && secret != rotated {
			t.Fatal("a rotated secret is not renewed alone and once")
		}
		rotated = secret
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
