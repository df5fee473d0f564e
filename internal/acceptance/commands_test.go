package acceptance

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// runIn runs a binary in a directory with this environment alone.
func runIn(t *testing.T, dir, name string, env []string, args ...string) (out, errOut string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), apptest.Binary(t, name), args...)
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(path, dir))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestCommands_make_neither_directory_nor_keys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, command := range []string{
		"supplier list", "supplier create --name x", "tracker client list", "delivery list", "rate list", "settings list",
		"verify", "delivery show msg_x", "retention run --days 1",
	} {
		out, errOut, code := runIn(t, dir, "api", nil, strings.Fields(command)...)
		if names := files(t, dir); len(names) != 1 {
			t.Fatalf("%s made %v", command, names)
		}
		if code != 1 || out != "" || !strings.Contains(errOut, "DATA_DIR") {
			t.Errorf("%s: exit code %d, %q, %q", command, code, out, errOut)
		}
	}
	if _, errOut, code := runIn(t, dir, "api", nil, "migrate"); code != 0 {
		t.Fatal(errOut)
	}
	for _, key := range []string{"jwt_signing_keys", "secrets_key", "webhook_signing_secrets"} {
		if err := os.Remove(filepath.Join(dir, "data", key)); err != nil {
			t.Fatal(err)
		}
	}
	if _, errOut, code := runIn(t, dir, "api", nil, "supplier", "list"); code != 0 {
		t.Errorf("without keys: exit code %d, %s", code, errOut)
	}
	for _, name := range files(t, dir) {
		if strings.Contains(name, "key") || strings.Contains(name, "secret") {
			t.Errorf("a reading command made %s", name)
		}
	}
}

// A script that keeps what a command prints must learn that there was nothing to keep.
func TestCommands_whose_output_is_lost_fail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := []string{"DATA_DIR=" + dir, "PATH=" + os.Getenv("PATH")}
	if _, errOut, code := runIn(t, dir, "api", env, "migrate"); code != 0 {
		t.Fatal(errOut)
	}
	unwritable, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unwritable.Close() })
	for _, command := range []string{
		"api --help", "api --version", "api keys generate", "api keys generate --secrets", "api secrets generate",
		"api secrets generate -o json", "api settings list", "api settings list -o json", "api supplier create --name x",
		"api supplier list", "api supplier list -o json", "api delivery list", "api verify", "api doctor",
		"api backup to.tar",
		"worker --help", "worker --version", "worker doctor", "worker doctor -o json",
	} {
		words := strings.Fields(command)
		cmd := exec.CommandContext(t.Context(), apptest.Binary(t, words[0]), words[1:]...)
		var errOut strings.Builder
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, unwritable, &errOut
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(errOut.String(), "error: write") {
			t.Errorf("%s: exit code %d, %q", command, code, errOut.String())
		}
	}
}

// An answer that is not given and a file whose rest does not come end with a signal, as all other work does.
func TestCommands_that_wait_for_input_end_when_they_are_stopped(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{APIs: 1})
	receiver := apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	s := h.Supplier(t, "--webhook-url", receiver.URL)
	submit(t, s, nil)
	reaches(t, s, "pending", 1)
	if _, errOut, code := h.Command(t, "tracker", "client", "create", "--name", "Fleet"); code != 0 {
		t.Fatal(errOut)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for command, waits := range map[string]func(said *lockedBuffer, in io.Writer) bool{
		"delivery redeliver --status undelivered": func(said *lockedBuffer, _ io.Writer) bool {
			return strings.Contains(said.String(), "[y/N]")
		},
		"tracker load - --client Fleet": func(_ *lockedBuffer, in io.Writer) bool {
			_, err := in.Write(bytes.Repeat([]byte(" "), 1<<20)) // more than a pipe holds
			return err == nil
		},
		"tracker load " + fifo + " --client Fleet": func(*lockedBuffer, io.Writer) bool {
			writer, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			if err == nil {
				t.Cleanup(func() { _ = writer.Close() })
			}
			return err == nil
		},
	} {
		cmd := exec.CommandContext(t.Context(), apptest.Binary(t, "api"), strings.Fields(command)...)
		for name, value := range h.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		said := &lockedBuffer{}
		cmd.Stderr = said
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		wait.Until(t, command+" waits", func() bool { return waits(said, in) })
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("%s: %v, %s", command, err, said)
		}
		select {
		case <-ended:
		case <-time.After(wait.Limit):
			_ = cmd.Process.Kill()
			<-ended
		}
		if code := cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("%s: exit code %d, %s", command, code, said)
		}
	}
}

func TestServe_names_the_variable_of_what_it_cannot_have(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	taken := []string{"HTTP_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0", "LOG_FORMAT=json", "DATA_DIR=" +
		h.Env["DATA_DIR"]}
	if _, errOut, code := runIn(t, t.TempDir(), "api", taken, "serve"); code != 1 ||
		!strings.Contains(errOut, "error: DATA_DIR") || !strings.Contains(errOut, "in use by another process") {
		t.Errorf("a second api on one DATA_DIR: exit code %d, %s", code, errOut)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string][]string{
		"HTTP_ADDR":  {"HTTP_ADDR=" + h.APIs[0].Address(), "ADMIN_ADDR=127.0.0.1:0", "DATA_DIR=" + t.TempDir()},
		"ADMIN_ADDR": {"HTTP_ADDR=127.0.0.1:0", "ADMIN_ADDR=" + h.APIs[0].Address(), "DATA_DIR=" + t.TempDir()},
		"DATA_DIR":   {"HTTP_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0", "DATA_DIR=" + file + "/below"},
	} {
		if _, errOut, code := runIn(t, t.TempDir(), "api", append(env, "LOG_FORMAT=json"), "serve"); code == 0 ||
			!strings.Contains(errOut, "error: "+name) {
			t.Errorf("%s: exit code %d, %s", name, code, errOut)
		}
	}
	env := []string{"DATA_DIR=" + h.Env["DATA_DIR"]}
	if _, errOut, code := runIn(t, t.TempDir(), "api", env, "supplier", "create", "--name", "x", "--webhook-url",
		"http://127.0.0.1:7001"); code != 1 || !strings.Contains(errOut, "WEBHOOK_ALLOW_PRIVATE") {
		t.Errorf("a private receiver: exit code %d, %s", code, errOut)
	}
}

func TestServe_that_is_stopped_while_it_starts_ends_well(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"migration applied", "api is serving"} {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), apptest.Binary(t, "api"), "serve", "--demo")
		cmd.Dir, cmd.Env = dir, []string{"HTTP_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0", "LOG_FORMAT=json"}
		logs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		interrupted := false
		for lines := bufio.NewScanner(logs); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if !interrupted && strings.Contains(lines.Text(), moment) {
				interrupted = true
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err != nil || !interrupted || strings.Contains(said.String(), "error:") {
			t.Errorf("interrupted at %q: %v\n%s", moment, err, &said)
		}
	}
}

func TestHealthcheck_exits_0_when_its_process_is_ready(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	for name, process := range map[string]*apptest.Process{"api": h.APIs[0], "worker": h.Workers[0]} {
		admin := "ADMIN_ADDR=" + strings.TrimPrefix(process.AdminURL(""), "http://")
		if _, errOut, code := runIn(t, t.TempDir(), name, []string{admin}, "healthcheck"); code != 0 {
			t.Errorf("%s: exit code %d, %s", name, code, errOut)
		}
		process.Stop()
		if _, errOut, code := runIn(t, t.TempDir(), name, []string{admin}, "healthcheck"); code != 1 ||
			!strings.Contains(errOut, "ADMIN_ADDR") {
			t.Errorf("%s has ended: exit code %d, %s", name, code, errOut)
		}
	}
}

// The operator listener knows localhost by every name of its address.
func TestHealthcheck_asks_by_a_name_that_the_listener_knows(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host
		_, _ = io.WriteString(w, `{"status":"ok","checks":{}}`)
	}))
	t.Cleanup(server.Close)
	admin := "ADMIN_ADDR=" + strings.TrimPrefix(server.URL, "http://")
	if _, errOut, code := runIn(t, t.TempDir(), "api", []string{admin}, "healthcheck"); code != 0 {
		t.Fatal(errOut)
	}
	if host := <-asked; host != "localhost" {
		t.Errorf("it asks %s", host)
	}
}

func TestHome_leads_to_the_documentation(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	response, err := h.HTTP.Get(h.URL(0, "/"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), `href="/docs"`) ||
		!strings.Contains(string(body), "viewport") {
		t.Errorf("%d %s %v", response.StatusCode, body, err)
	}
}

func TestLists_are_whole_in_a_pipe_a_line_a_row(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	name, url := strings.Repeat("ã", 255), "https://example.com/"+strings.Repeat("x", 200)
	id := apptest.MustCommand[object](t, h, "supplier", "create", "--name", name, "--webhook-url", url)["id"].(string)
	client := apptest.MustCommand[object](t, h, "tracker", "client", "create", "--name", strings.Repeat("b", 255))
	for command, row := range map[string][]string{"supplier list": {id, name, url}, "receiver list": {id, name},
		"tracker client list": {client["id"].(string), strings.Repeat("b", 255)}} {
		out, errOut, code := h.Command(t, strings.Fields(command)...)
		if code != 0 || strings.Count(out, "\n") != 2 { // with the titles
			t.Fatalf("%s: exit code %d, %s%s", command, code, out, errOut)
		}
		for _, cell := range row {
			if !strings.Contains(out, cell) {
				t.Errorf("%s breaks %s:\n%s", command, cell, out)
			}
		}
	}
}

func TestNames_work_wherever_ids_do(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	client := apptest.MustCommand[object](t, h, "tracker", "client", "create", "--name", "Fleet Norte")
	file := filepath.Join(t.TempDir(), "records.ndjson")
	if err := os.WriteFile(file, []byte(`{"imei":356938035643809,"dt_carga":"2026-11-20"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"load", file, "--client", "fleet norte"}, {"client", "deactivate", "Fleet Norte"},
		{"client", "activate", "Fleet Norte"}, {"client", "rotate-key", "Fleet Norte"},
		{"client", "set-views", "Fleet Norte", "--views", ""}} {
		apptest.MustCommand[object](t, h, append([]string{"tracker"}, command...)...)
	}
	for _, id := range []string{client["id"].(string), "Fleet Norte"} {
		if got := apptest.MustCommand[object](t, h, "tracker", "client", "rotate-key", id); got["id"] != client["id"] {
			t.Errorf("%s: %v", id, got)
		}
	}
	if _, errOut, code := h.Command(t, "tracker", "client", "activate", "Flet Norte"); code != 1 ||
		!strings.Contains(errOut, "There is no tracker client Flet Norte") {
		t.Errorf("exit code %d, %s", code, errOut)
	}
	apptest.MustCommand[object](t, h, "tracker", "client", "create", "--name", "FLEET NORTE")
	if _, errOut, code := h.Command(t, "tracker", "client", "activate", "fleet norte"); code != 1 ||
		!strings.Contains(errOut, "give an id") {
		t.Errorf("two of one name: exit code %d, %s", code, errOut)
	}
}

// Every supplier may have a request of that id.
func TestCommands_list_the_deliveries_of_an_id_of_all_suppliers_newest_first(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			var newest []string // whose requests
			for range 3 {
				s := h.Supplier(t)
				newest = append([]string{s.ID}, newest...)
				want(t, s.Do(t, http.MethodPost, requests, request(7, nil)), 201)
			}
			of := func(args ...string) (suppliers []string) {
				args = append([]string{"delivery", "list", "--request", "7"}, args...)
				for _, d := range apptest.MustCommand[[]object](t, h, args...) {
					suppliers = append(suppliers, d["supplier_id"].(string))
				}
				return suppliers
			}
			wait.Until(t, "each has its delivery", func() bool { return len(of()) == len(newest) })
			for limit, want := range map[string][]string{"0": newest, "1": newest[:1], "2": newest[:2], "9": newest} {
				if got := of("--limit", limit); !slices.Equal(got, want) {
					t.Errorf("limit %s: those of %v, want %v", limit, got, want)
				}
			}
			if got := of("--supplier", newest[1]); !slices.Equal(got, newest[1:2]) {
				t.Errorf("of one supplier: those of %v", got)
			}
		})
	}
}

func TestCommands_over_requests_and_deliveries(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1,
				Env: map[string]string{"WEBHOOK_RETRY_SCHEDULE": "10ms"}})
			lost := apptest.NewReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
				if n < 6 { // two attempts of each of the three
					w.WriteHeader(http.StatusInternalServerError)
				}
			})
			s := h.Supplier(t, "--webhook-url", lost.URL)
			for id := range int64(3) {
				want(t, s.Do(t, http.MethodPost, requests, request(id+1, nil)), 201)
			}
			count := func(args ...string) int {
				return len(apptest.MustCommand[[]object](t, h, append([]string{"delivery", "list"}, args...)...))
			}
			wait.Until(t, "three deliveries are dead", func() bool { return count("--status", "dead") == 3 })
			wait.Until(t, "three are delivered to the own endpoint",
				func() bool { return count("--status", "delivered", "--supplier", s.ID) == 3 })
			for want, args := range map[int][]string{
				6: {"--limit", "0"}, 2: {"--limit", "2"}, 0: {"--since", "1ns"},
				3: {"--status", "dead", "--since", "1h", "--supplier", s.ID},
			} {
				if got := count(args...); got != want {
					t.Errorf("delivery list %v gives %d, want %d", args, got, want)
				}
			}
			if got := count("--request", "2"); got != 2 {
				t.Errorf("request 2 has %d deliveries", got)
			}
			for _, args := range [][]string{{"--request", "77"}, {"--request", "2", "--supplier", h.Supplier(t).ID}} {
				if out, errOut, code := h.Command(t, append([]string{"delivery", "list"}, args...)...); code != 1 || out != "" ||
					!strings.Contains(errOut, "There is no request "+args[1]) {
					t.Errorf("delivery list %v: exit code %d, %s%s", args, code, out, errOut)
				}
			}
			var of []any
			for _, d := range apptest.MustCommand[[]object](t, h, "delivery", "list") {
				of = append(of, d["request_id"])
			}
			if got := fmt.Sprint(of); got != "[3 3 2 2 1 1]" {
				t.Errorf("the deliveries, newest first in the order of acceptance, are of the requests %s", got)
			}
			requestRules(t, h, s)
			if _, errOut, code := h.Command(t, "delivery", "redeliver", "--status", "undelivered"); code != 1 ||
				!strings.Contains(errOut, "Redeliver 3 undelivered deliveries?") {
				t.Errorf("undelivered is dead, failed and pending: exit code %d, %s", code, errOut)
			}
			if out, errOut, code := h.Command(t, "delivery", "redeliver", "--status", "dead"); code != 1 || out != "" ||
				!strings.Contains(errOut, "Redeliver 3 dead deliveries?") || count("--status", "dead") != 3 {
				t.Errorf("no answer: exit code %d, %s%s", code, out, errOut)
			}
			if got := apptest.MustCommand[object](t, h, "delivery", "redeliver", "--status", "undelivered",
				"--supplier", s.ID, "--since", "1h", "--yes"); got["redelivered"] != 3.0 {
				t.Errorf("got %v", got)
			}
			wait.Until(t, "all are delivered",
				func() bool { return count("--status", "delivered") == count("--limit", "0") })
			if got := apptest.MustCommand[object](t, h, "delivery", "redeliver", "--status", "dead"); got["redelivered"] != 0.0 {
				t.Errorf("without dead ones: %v", got)
			}
			for _, day := range []string{"2020-01-01", "0001-01-01"} {
				if got := apptest.MustCommand[object](t, h, "retention", "run", "--before", day); got["requests"] != 0.0 {
					t.Errorf("nothing is as old as %s: %v", day, got)
				}
			}
		})
	}
}

func requestRules(t *testing.T, h *apptest.Hub, s *apptest.Supplier) {
	t.Helper()
	if list := apptest.MustCommand[[]object](t, h, "request", "list", "--supplier", s.ID, "--status", "estimated",
		"--limit", "2"); len(list) != 2 || list[0]["id"] != 3.0 || list[0]["supplier_id"] != s.ID {
		t.Errorf("the requests are %v", list)
	}
	if _, errOut, code := h.Command(t, "request", "reopen", s.ID, "1"); code != 1 ||
		!strings.Contains(errOut, "not failed") {
		t.Errorf("reopen of one that is not failed: exit code %d, %s", code, errOut)
	}
	if _, errOut, code := h.Command(t, "request", "show", s.ID, "99"); code != 1 || errOut == "" {
		t.Errorf("an unknown request: exit code %d", code)
	}
	if _, err := openDatabase(t, h).ExecContext(t.Context(),
		`UPDATE material_requests SET status = 'failed', failure = 'A test made it fail.' WHERE id = 1`); err != nil {
		t.Fatal(err)
	}
	if got := apptest.MustCommand[object](t, h, "request", "show", s.ID, "1"); got["failure"] != "A test made it fail." ||
		len(got["rounds"].([]any)) != 1 || len(got["deliveries"].([]any)) != 2 || got["id"] != 1.0 ||
		got["supplier_id"] != s.ID {
		t.Errorf("the request is %v", got)
	}
	if got := apptest.MustCommand[object](t, h, "request", "reopen", s.ID, "1"); got["status"] != "enqueued" {
		t.Errorf("reopened: %v", got)
	}
	wait.Until(t, "the second round is estimated", func() bool {
		got := apptest.MustCommand[object](t, h, "request", "show", s.ID, "1")
		rounds, _ := got["rounds"].([]any)
		return len(rounds) == 2 && got["status"] == "estimated" && got["failure"] == nil &&
			rounds[0].(object)["failure"] == "A test made it fail."
	})
	out, errOut, code := h.Command(t, "request", "show", s.ID, "1")
	if code != 0 || !strings.Contains(out, "\nrounds\n  ROUND") || !strings.Contains(out, "\ndeliveries\n  ID") {
		t.Errorf("exit code %d, %s%s", code, out, errOut)
	}
}
