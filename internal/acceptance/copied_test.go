package acceptance

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// What is published to be copied meets what the service itself meets: the receivers in /docs, the samples, and
// pkg/client. Each attack has every program that it can be made at.

// copied is a program that people copy, with the command that starts it in its directory.
type copied struct {
	name, dir string
	command   []string
}

// copiedPrograms returns those whose runtime is installed.
func copiedPrograms(t *testing.T) (receivers, callers []copied) {
	t.Helper()
	binary := goReceiver(t)
	receivers = append(receivers, copied{"docs/receiver.go", ".", []string{binary}})
	callers = append(callers, copied{"pkg/client", ".", []string{os.Args[0], "-test.run=^TestCopied_go_client$"}})
	if _, err := exec.LookPath("python3"); err == nil {
		sample := repository("deployments", "samples", "python")
		receivers = append(receivers, copied{"docs/receiver.py", ".", []string{"python3", docsReceiver("receiver.py")}},
			copied{"samples/supplier.py", sample, []string{"python3", "supplier.py", "receive"}})
		callers = append(callers, copied{"samples/supplier.py", sample, []string{"python3", "supplier.py", "request", "1"}})
	}
	if _, err := exec.LookPath("npm"); err == nil {
		t.Run("TypeScript", func(t *testing.T) { // is skipped where the registry is not reachable
			sample := builtTypeScript(t)
			kept := filepath.Join(filepath.Dir(binary), "typescript")
			if err := os.CopyFS(kept, os.DirFS(sample)); err != nil {
				t.Fatal(err)
			}
			callers = append(callers, copied{"samples/supplier.ts", kept, []string{"node", "build/supplier.js", "request", "1"}})
			receivers = append(receivers, copied{"samples/supplier.ts", kept, []string{"node", "build/supplier.js", "receive"}})
		})
		receivers = append(receivers, copied{"docs/receiver.mjs", ".", []string{"node", docsReceiver("receiver.mjs")}})
	}
	return receivers, callers
}

// running is a started program.
type running struct {
	*outside
	cmd  *exec.Cmd
	done chan struct{}
}

func (p copied) start(t *testing.T, env ...string) *running {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.command[0], p.command[1:]...)
	r := &running{&outside{}, cmd, make(chan struct{})}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, append(os.Environ(), env...), r, r
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // the state is looked at
		close(r.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		<-r.done
	})
	return r
}

// fails waits until the program has ended, with a failure and these words, and returns what it held at most, in MiB.
func (r *running) fails(t *testing.T, words string) (peak int) {
	t.Helper()
	wait.Until(t, "the program ends: "+r.printed(), func() bool {
		select {
		case <-r.done:
			return true
		default:
			peak = max(peak, highest(r.cmd.Process.Pid))
			return false
		}
	})
	if r.cmd.ProcessState.ExitCode() <= 0 || !strings.Contains(r.printed(), words) {
		t.Errorf("%v, without %q:\n%s", r.cmd.ProcessState, words, r.printed())
	}
	return peak
}

func TestCopied(t *testing.T) {
	t.Parallel()
	receivers, callers := copiedPrograms(t)
	for _, p := range receivers {
		rule(t, p.name+": a secret that is none ends it at its start with a message", func(t *testing.T) { badSecrets(t, p) })
		rule(t, p.name+": no caller makes it hold memory or stop serving others", func(t *testing.T) { hostileCallers(t, p) })
	}
	for _, p := range callers {
		rule(t, p.name+": its credentials follow no redirect", func(t *testing.T) { redirects(t, p) })
		rule(t, p.name+": a key that no header can carry ends it at its start, and is not printed",
			func(t *testing.T) { badKeys(t, p) })
		rule(t, p.name+": an answer that is not the service's is no success", func(t *testing.T) { strangeAnswers(t, p) })
		rule(t, p.name+": an answer without end ends with an error", func(t *testing.T) { endlessAnswers(t, p) })
	}
}

func badSecrets(t *testing.T, p copied) {
	for _, secret := range []string{"", "whsec_", "whsec_%%%", "whsec_c2hvcnQ=",
		webhook.NewSecret().Text()[len("whsec_"):],
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23)),
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		p.start(t, "WEBHOOK_SECRET="+secret, "PORT="+freePort(t), "SUPPLYHUB_URL=http://127.0.0.1:1",
			"SUPPLYHUB_API_KEY=k").fails(t, "WEBHOOK_SECRET")
	}
}

func badKeys(t *testing.T, p copied) {
	for _, key := range []string{" ", "hub_sk_\nhidden", "hub_sk_\u00e7hidden", "hub sk hidden"} {
		r := p.start(t, "SUPPLYHUB_URL=http://127.0.0.1:1", "SUPPLYHUB_API_KEY="+key)
		if r.fails(t, "is empty, or has characters that no key has"); strings.Contains(r.printed(), "hidden") {
			t.Errorf("it printed the key:\n%s", r.printed())
		}
	}
}

func strangeAnswers(t *testing.T, p copied) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/external-auth/token" {
			_, _ = io.WriteString(w, tokens)
			return
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(service.Close)
	p.start(t, "SUPPLYHUB_URL="+service.URL+"//", "SUPPLYHUB_API_KEY=hub_sk_1").fails(t, "")
}

// hostileCallers attacks a receiver in every way at once, while a call of the service is answered as ever.
func hostileCallers(t *testing.T, p copied) {
	port, by := freePort(t), webhook.NewSecret()
	r := p.start(t, "WEBHOOK_SECRET="+by.Text(), "PORT="+port, "SUPPLYHUB_URL=http://127.0.0.1:1", "SUPPLYHUB_API_KEY=k")
	listens(t, port)
	address := "127.0.0.1:" + port
	call := func(id string, sign func([]byte) string) int {
		body := []byte(`{"type":"webhook.test","timestamp":"2026-11-20T12:00:00Z","data":{}}`)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(webhook.HeaderID, id)
		request.Header.Set(webhook.HeaderTimestamp, fmt.Sprint(time.Now().Unix()))
		request.Header.Set(webhook.HeaderSignature, sign(body))
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	good := func(id string) {
		if status := call(id, func(body []byte) string { return webhook.Sign(id, time.Now(), body, by) }); status != 204 {
			t.Errorf("%s: a good call is answered %d", id, status)
		}
	}
	good("before")
	before := highest(r.cmd.Process.Pid)
	if status := call("forged", func(body []byte) string {
		mac := hmac.New(sha256.New, nil)
		fmt.Fprintf(mac, "forged.%d.%s", time.Now().Unix(), body)
		return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}); status != 401 {
		t.Errorf("signed with no key: answered %d", status)
	}
	var attacks sync.WaitGroup
	for name, header := range map[string]string{"absent": "", "-1": "Content-Length: -1\r\n",
		"word":  "Content-Length: x\r\n",
		"2 GiB": "Content-Length: 2147483648\r\n", "digits": "Content-Length: " + strings.Repeat("9", 400) + "\r\n",
		"chunked": "Transfer-Encoding: chunked\r\n"} {
		attacks.Go(func() {
			if status := flood(t, address, header, 80<<20); status/100 == 2 {
				t.Errorf("length %s: answered %d", name, status)
			}
		})
	}
	for range 20 {
		attacks.Go(func() { drip(t, address, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n") })
		attacks.Go(func() { drip(t, address, "POST / HTTP/1.1\r\nX-Slow: ") })
	}
	good("meanwhile")
	attacks.Wait()
	good("after")
	if held := highest(r.cmd.Process.Pid) - before; held > 40 {
		t.Errorf("the attacks made it hold %d MiB more:\n%s", held, r.printed())
	}
}

// flood sends a body of n bytes after a header and returns the answer's status, 0 when the receiver hangs up.
func flood(t *testing.T, address, header string, n int) int {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(wait.Limit))
	part := append([]byte("10000\r\n"), bytes.Repeat([]byte("a"), 1<<16)...)
	go func() { // until it is not read any more
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n", header); err != nil {
			return
		}
		for sent := 0; sent < n; sent += len(part) {
			if _, err := conn.Write(append(part, "\r\n"...)); err != nil {
				return
			}
		}
	}()
	status := 0
	_, _ = fmt.Fscanf(conn, "HTTP/1.%1d %d", new(int), &status)
	return status
}

// drip sends a byte a second until the receiver hangs up, and says when it never does.
func drip(t *testing.T, address, begin string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		close(ended)
	}()
	_, err = io.WriteString(conn, begin)
	for end, second := time.Now().Add(hostileWait), time.Tick(time.Second); err == nil && time.Now().Before(end); {
		select {
		case <-ended:
			return
		case <-second:
			_, err = io.WriteString(conn, "a")
		}
	}
	if err == nil {
		t.Errorf("a caller that sends a byte a second is served for longer than %v", hostileWait)
	}
}

// tokens is what a hostile service answers a key with, so that it gets the next call.
const tokens = `{"AccessToken":"hub_at_1","RefreshToken":"hub_rt_1","TokenType":"Bearer","ExpiresIn":900,
	"RefreshExpiresIn":9000}`

func redirects(t *testing.T, p copied) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, from := range []string{"/api/external-auth/token", "/api/material-requests"} {
			var mu sync.Mutex
			var seen []http.Header
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, r.Header)
				_, _ = io.WriteString(w, tokens)
			}))
			t.Cleanup(other.Close)
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, from) {
					http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+r.URL.Path, status)
					return
				}
				_, _ = io.WriteString(w, tokens)
			}))
			t.Cleanup(service.Close)
			p.start(t, "SUPPLYHUB_URL="+service.URL, "SUPPLYHUB_API_KEY=hub_sk_1").fails(t, fmt.Sprint(status))
			if mu.Lock(); len(seen) > 0 {
				t.Errorf("%d at %s: the other host got %v", status, from, seen)
			}
			mu.Unlock()
		}
	}
}

// endlessAnswers has answers that say more than a caller may read: plain, and as a few compressed bytes.
func endlessAnswers(t *testing.T, p copied) {
	part := bytes.Repeat([]byte("a"), 1<<20)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 16 {
		_, _ = z.Write(part) // into memory
	}
	_ = z.Close()
	for name, answer := range map[string]struct {
		encoding, first string
		part            []byte
	}{
		"plain": {"", `{"id":1,"status":"`, part}, "gzip": {"gzip", "", bomb.Bytes()},
	} {
		for _, to := range []string{"/api/external-auth/token", "/api/material-requests"} {
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.URL.Path, to) {
					_, _ = io.WriteString(w, tokens)
					return
				}
				w.Header().Set("Content-Encoding", answer.encoding)
				_, err := io.WriteString(w, answer.first)
				for n := 0; n < 512 && err == nil; n++ {
					_, err = w.Write(answer.part)
				}
			}))
			t.Cleanup(service.Close)
			peak := p.start(t, "SUPPLYHUB_URL="+service.URL, "SUPPLYHUB_API_KEY=hub_sk_1").fails(t, "")
			if peak > 200 && os.Getenv("SUPPLYHUB_TEST_RACE") == "" {
				t.Errorf("%s at %s: it held %d MiB", name, to, peak)
			}
		}
	}
}

// TestCopied_go_client is the program that calls by pkg/client, when another test starts it.
func TestCopied_go_client(t *testing.T) {
	if os.Getenv("SUPPLYHUB_API_KEY") == "" {
		t.Skip("started by TestCopied")
	}
	c, err := client.New(client.Config{BaseURL: os.Getenv("SUPPLYHUB_URL"), APIKey: os.Getenv("SUPPLYHUB_API_KEY"),
		Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Request(t.Context(), 1); err != nil {
		t.Fatal(err)
	} else if r.ID != 1 {
		t.Fatal("no request")
	}
}

// Only pkg/client reads lists: those whose cursors come back end with an error, and few bytes do not become much
// memory.
func TestCopied_the_go_client_reads_lists_with_a_limit(t *testing.T) {
	t.Parallel()
	for name, pages := range map[string][]string{
		"the same cursor again": {`{"data":[{"id":1}],"next_cursor":"a"}`},
		"a circle of three": {`{"data":[],"next_cursor":"a"}`, `{"data":[],"next_cursor":"b"}`,
			`{"data":[],"next_cursor":"c"}`},
		"empty items":           {`{"data":[` + strings.Repeat("0,", 7<<20) + `0]}`},
		"empty items of a list": {`{"data":[{"materials":[` + strings.Repeat("{},", 5<<20) + `{}]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			n := 0
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/api/external-auth/token" {
					_, _ = io.WriteString(w, tokens)
					return
				}
				mu.Lock()
				page := pages[n%len(pages)]
				if n++; n > 50 {
					page = `{"data":[]}`
				}
				mu.Unlock()
				_, _ = io.WriteString(w, page)
			}))
			t.Cleanup(service.Close)
			c, err := client.New(client.Config{BaseURL: service.URL, APIKey: "k"})
			if err != nil {
				t.Fatal(err)
			}
			read := 0
			for _, err = range c.Requests(t.Context(), "") {
				if read++; err != nil || read > 100 {
					break
				}
			}
			if err == nil || n > 12 {
				t.Errorf("after %d items and %d calls: %v", read, n, err)
			}
		})
	}
}

// highest is the process's resident memory in MiB at its highest; 0 when it has ended.
func highest(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
	for line := range strings.Lines(string(text)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	return 0
}
