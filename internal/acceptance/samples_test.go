package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/deployments/samples"
	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// The receivers that /docs/webhooks shows and the suppliers in deployments/samples run as they are against the built
// binaries. A program whose runtime is not installed is skipped, and the test says so.

// outside is a program of another language, started by the test.
type outside struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (p *outside) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *outside) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// program starts a command that ends with the test.
func program(t *testing.T, dir string, env []string, command ...string) *outside {
	t.Helper()
	p := &outside{}
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), p, p
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
	})
	return p
}

// needs skips the test unless the runtime is installed.
func needs(t *testing.T, runtime string) {
	t.Helper()
	if _, err := exec.LookPath(runtime); err != nil {
		t.Skipf("NOT TESTED: %s is not installed", runtime)
	}
}

// freePort is a port of the loopback on which nothing listens.
func freePort(t *testing.T) string { return strconv.Itoa(queuetest.FreePort(t)) }

func freeAddress(t *testing.T) string { return "127.0.0.1:" + freePort(t) }

// listens waits until something listens on the port.
func listens(t *testing.T, port string) {
	t.Helper()
	wait.Until(t, "the receiver listens", func() bool {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
}

func repository(parts ...string) string {
	return filepath.Join(append([]string{"..", ".."}, parts...)...)
}

func docsReceiver(name string) string {
	return repository("internal", "httpapi", "docs", "receiver", name)
}

// goReceiver builds the receiver in Go as who copies it does: the one file, outside of this module.
func goReceiver(t *testing.T) (binary string) {
	t.Helper()
	content, err := os.ReadFile(docsReceiver("main.go"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "receiver.go"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "receiver.go")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the receiver: %v\n%s", err, out)
	}
	return filepath.Join(dir, "receiver")
}

func TestSamples(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded,
		apptest.Options{Env: map[string]string{"WEBHOOK_RETRY_SCHEDULE": "100ms,100ms,100ms"}})
	for _, r := range []struct {
		language, runtime string
		command           func(t *testing.T) []string
	}{
		{"Go", "go", func(t *testing.T) []string { return []string{goReceiver(t)} }},
		{"Python", "python3", func(*testing.T) []string { return []string{"python3", docsReceiver("receiver.py")} }},
		{"JavaScript", "node", func(*testing.T) []string { return []string{"node", docsReceiver("receiver.mjs")} }},
	} {
		rule(t, "the documented receiver in "+r.language+" takes a real delivery once and refuses what is not one",
			func(t *testing.T) {
				needs(t, r.runtime)
				port := freePort(t)
				s := h.Supplier(t, "--webhook-url", "http://127.0.0.1:"+port)
				p := program(t, ".", []string{"WEBHOOK_SECRET=" + s.WebhookSecret, "PORT=" + port}, r.command(t)...)
				listens(t, port)
				id := submit(t, s, nil)
				estimates := len(becomes(t, s, id, "estimated").Estimates)
				line := fmt.Sprintf("request %d estimates %d\n", id, estimates)
				wait.Until(t, "the receiver printed "+line, func() bool { return strings.Contains(p.printed(), line) })
				refusals(t, "http://127.0.0.1:"+port, secret(t, s.WebhookSecret))
				breaks(t, "127.0.0.1:"+port, secret(t, s.WebhookSecret))
				// The pipe brings a moment later what the program printed before it answered.
				wait.Until(t, "the last call was handled", func() bool {
					return strings.Contains(p.printed(), "broken_1 request 1 estimates 0\n")
				})
				if n := strings.Count(p.printed(), " estimates "); n != 3 {
					t.Errorf("the real call and the two of the test were handled %d times:\n%s", n, p.printed())
				}
			})
	}
	rule(t, "the sample supplier in Python asks, receives and chooses", func(t *testing.T) {
		needs(t, "python3")
		sampleSupplier(t, h, repository("deployments", "samples", "python"), "python3", "supplier.py")
	})
	rule(t, "the sample supplier in TypeScript does too, verifying by the npm package of Standard Webhooks, whose "+
		"signatures pkg/webhook takes", func(t *testing.T) {
		dir := builtTypeScript(t)
		sampleSupplier(t, h, dir, "node", "build/supplier.js")
		at, by, body := time.Now(), webhook.NewSecret(), `{"name":"São Paulo"}`
		header := http.Header{}
		header.Set(webhook.HeaderID, "msg_1")
		header.Set(webhook.HeaderTimestamp, fmt.Sprint(at.Unix()))
		header.Set(webhook.HeaderSignature, theirSignature(t, dir, by, "msg_1", at, body))
		if _, err := webhook.Verify(header, []byte(body), at, by); err != nil {
			t.Error(err)
		}
	})
}

// estimatedEvent is an event that every receiver takes.
const estimatedEvent = `{"type":"material_request.estimated","timestamp":"2026-11-20T12:00:00Z",
	"data":{"supplier_id":"s","request_id":1,"shop_code":"x","estimates":[],"unavailable":[]}}`

// breaks makes the receiver fail: by a caller that hangs up within its body, and by an event that it cannot work on,
// which is no success. The same call with one that it can is handled then.
func breaks(t *testing.T, address string, by webhook.Secret) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	_ = conn.Close()
	for _, c := range []struct {
		body string
		good bool
	}{{`{"type":"material_request.estimated","timestamp":7,"data":null}`, false}, {"no JSON", false},
		{estimatedEvent, true}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		r.Header.Set(webhook.HeaderID, "broken_1")
		r.Header.Set(webhook.HeaderTimestamp, fmt.Sprint(now.Unix()))
		r.Header.Set(webhook.HeaderSignature, webhook.Sign("broken_1", now, []byte(c.body), by))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("the receiver does not answer any more: %v", err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode >= 300 == c.good {
			t.Errorf("%s: answered %d", c.body, answer.StatusCode)
		}
	}
}

// refusals makes calls of its own: a good one twice, and what no receiver may take.
func refusals(t *testing.T, url string, by webhook.Secret) {
	t.Helper()
	body := estimatedEvent
	now := time.Now()
	for _, c := range []struct {
		name, id string
		at       time.Time
		body     string
		secrets  []webhook.Secret
		status   int
	}{
		{"signed by both secrets of a rotation", "own_1", now, body, []webhook.Secret{webhook.NewSecret(), by}, 204},
		{"the same call again", "own_1", now, body, []webhook.Secret{by}, 204},
		{"a test call", "own_2", now, `{"type":"webhook.test","timestamp":"2026-11-20T12:00:00Z","data":{}}`,
			[]webhook.Secret{by}, 204},
		{"signed by another party", "own_3", now, body, []webhook.Secret{webhook.NewSecret()}, 401},
		{"six minutes old", "own_4", now.Add(-6 * time.Minute), body, []webhook.Secret{by}, 401},
		{"without a signature", "own_5", now, body, nil, 401},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(webhook.HeaderID, c.id)
		r.Header.Set(webhook.HeaderTimestamp, fmt.Sprint(c.at.Unix()))
		if c.secrets != nil {
			r.Header.Set(webhook.HeaderSignature, webhook.Sign(c.id, c.at, []byte(c.body), c.secrets...))
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", c.name, answer.StatusCode, c.status)
		}
	}
}

// sampleSupplier runs both halves of a sample and waits until the cheapest estimate is chosen.
func sampleSupplier(t *testing.T, h *apptest.Hub, dir string, command ...string) {
	t.Helper()
	port := freePort(t)
	s := h.Supplier(t, "--webhook-url", "http://127.0.0.1:"+port)
	env := []string{"SUPPLYHUB_URL=" + troubledWay(t, h.URL(0, "")) + "//", "SUPPLYHUB_API_KEY= " + s.APIKey + "\n",
		"WEBHOOK_SECRET=" + s.WebhookSecret, "PORT=" + port}
	receiver := program(t, dir, env, append(command, "receive")...)
	listens(t, port)
	id := nextID()
	caller := program(t, dir, env, append(command, "request", fmt.Sprint(id))...)
	wait.Until(t, "the caller sent the request", func() bool {
		return strings.Contains(caller.printed(), fmt.Sprintf("request %d is enqueued", id))
	})
	wait.Until(t, "the receiver chose an estimate: "+receiver.printed(), func() bool {
		return strings.Contains(receiver.printed(), fmt.Sprintf("request %d is selected by ", id))
	})
	if r := read(t, s, id); r.Status != "selected" || r.SelectedEstimateID == nil {
		t.Errorf("got %+v", r)
	}
	sent := showDelivery(t, s, reaches(t, s, "delivered", 1)[0].ID)
	if len(sent.Attempts) != 2 || *sent.Attempts[0].Status != http.StatusInternalServerError {
		t.Errorf("the work that failed was answered by %+v", sent.Attempts)
	}
}

// troubledWay passes everything to the service but the first calls for a token, for a request and for a choice of an
// estimate, and the first two that ask for materials: one is to come again at a date, the answer of the other ends in
// the middle. The first call for a request gets a firewall's page.
func troubledWay(t *testing.T, service string) string {
	t.Helper()
	target, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	var signedIn, asked, looked, chosen atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asks := r.Method == http.MethodPost && r.URL.Path == "/api/material-requests"
		switch {
		case r.URL.Path == "/api/external-auth/token" && signedIn.Add(1) == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Method == http.MethodGet && looked.Add(1) == 1:
			_, _ = io.WriteString(w, "<html>Blocked</html>")
		case r.Method == http.MethodPatch && chosen.Add(1) == 1:
			w.WriteHeader(http.StatusConflict)
		case asks && asked.Add(1) == 1:
			w.Header().Set("Retry-After", time.Now().UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusServiceUnavailable)
		case asks && asked.Load() == 2:
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"status":`)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// builtTypeScript is a directory with the built sample.
func builtTypeScript(t *testing.T) string {
	t.Helper()
	needs(t, "node")
	needs(t, "npm")
	dir := t.TempDir()
	for name, content := range samples.Files() { // what /docs serves is enough
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := npm(t, dir, "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		for _, sign := range []string{"ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT"} {
			if strings.Contains(out, sign) {
				t.Skipf("NOT TESTED: the npm registry is not reachable: %s", sign)
			}
		}
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	if out, err := npm(t, dir, "run", "build"); err != nil {
		t.Fatalf("npm run build: %v\n%s", err, out)
	}
	return dir
}

func npm(t *testing.T, dir string, arguments ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "npm", arguments...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// theirSignature signs by the npm package what pkg/webhook must accept.
func theirSignature(t *testing.T, dir string, by webhook.Secret, id string, at time.Time, body string) string {
	t.Helper()
	const script = `import("standardwebhooks").then(({ Webhook }) => {
		const [secret, id, at, body] = process.argv.slice(1);
		process.stdout.write(new Webhook(secret).sign(id, new Date(at * 1000), body));
	})`
	cmd := exec.CommandContext(t.Context(), "node", "-e", script, by.Text(), id, fmt.Sprint(at.Unix()), body)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
