package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

func TestRateLimit_is_a_429_problem_with_Retry_After_on_every_route_that_takes_a_token(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1,
				Env: map[string]string{"SUPPLIER_RATE_LIMIT": "2"}})
			for path, method := range map[string]string{requests: http.MethodGet, estimatesPath(1): http.MethodPost} {
				s, other := h.Supplier(t, "--scopes", "material-requests,estimates:write"),
					h.Supplier(t, "--scopes", "material-requests,estimates:write")
				limited(t, s, method, path)
				if a := other.Do(t, method, path, nil); a.Status == http.StatusTooManyRequests {
					t.Errorf("%s %s: another supplier is held up", method, path)
				}
			}
			limitedExchange(t, h, h.Supplier(t))
			s, own := h.Supplier(t), secret(t, h.ServiceSecret(t))
			want(t, s.Do(t, http.MethodPost, requests, request(1, nil)), http.StatusCreated)
			for range 10 {
				now := time.Now()
				a := h.Do(t, http.MethodPost, estimatesPath(1), event(s, 1, now, "e"),
					sign(t, "msg_own", now, event(s, 1, now, "e"), own)...)
				want(t, a, http.StatusOK)
			}
		})
	}
}

// limitedExchange exchanges the key, then refreshes, until the same limit is reached.
func limitedExchange(t *testing.T, h *apptest.Hub, s *apptest.Supplier) {
	t.Helper()
	token := s.RefreshToken()
	for what, call := range map[string]func() apptest.Answer{
		"token":   func() apptest.Answer { return h.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", s.APIKey) },
		"refresh": func() apptest.Answer { return refresh(t, h, 0, token) },
	} {
		a := call()
		for range 100 {
			if a.Status == http.StatusTooManyRequests {
				break
			}
			want(t, a, http.StatusOK)
			if what == "refresh" {
				token = apptest.Decode[apptest.Tokens](t, a).RefreshToken
			}
			a = call()
		}
		wantProblem(t, a, http.StatusTooManyRequests)
	}
}

// limited calls until the limit of 2 a second is reached, which 20 calls at once must.
func limited(t *testing.T, s *apptest.Supplier, method, path string) {
	t.Helper()
	for range 20 {
		a := s.Do(t, method, path, nil)
		if a.Status != http.StatusTooManyRequests {
			continue
		}
		wantProblem(t, a, http.StatusTooManyRequests)
		if a.Header.Get("Retry-After") != "1" {
			t.Errorf("%s %s: Retry-After is %q", method, path, a.Header.Get("Retry-After"))
		}
		return
	}
	t.Errorf("%s %s: 20 requests at once are within a limit of 2 a second", method, path)
}

// TestFairness: a request of 150 KiB is answered as fast among 200 strangers and a greedy supplier, all of whom send
// large bodies drop by drop, as it is alone.
func TestFairness_slow_uploads_of_one_hold_up_no_other_supplier_s_large_request(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			s, greedy := h.Supplier(t), h.Supplier(t)
			alone := fastest(t, s)
			const mebibyte = 1 << 20
			length := fmt.Sprintf("Content-Length: %d", mebibyte)
			signature := []string{
				webhook.HeaderID + ": x", fmt.Sprintf("%s: %d", webhook.HeaderTimestamp, time.Now().Unix()),
				webhook.HeaderSignature + ": v1,AAAA",
			}
			for range 50 {
				uploading(t, h, head("POST "+refreshPath, "Content-Type: application/json", length))
				uploading(t, h, head("POST "+revokePath, "Content-Type: application/json", length))
				uploading(t, h, head("POST "+requests, "Authorization: Bearer x", "Content-Type: application/json", length))
				uploading(t, h, head("POST "+estimatesPath(1), append(signature, "Content-Type: application/json", length)...))
				uploading(t, h, head("POST "+requests, "Authorization: Bearer "+greedy.AccessToken(),
					"Content-Type: application/json", length))
			}
			among := fastest(t, s)
			t.Logf("alone %v, among 200 strangers and a greedy supplier %v", alone, among)
			if among > 2*alone+time.Second { // one that is held up takes 10 s; a machine that runs other tests is not steadier
				t.Errorf("during slow uploads a request of 150 KiB takes %v, alone %v", among, alone)
			}
		})
	}
}

// uploading begins a body that never ends.
func uploading(t *testing.T, h *apptest.Hub, text string) {
	t.Helper()
	conn, err := net.Dial("tcp", h.APIs[0].Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text+"{"); err != nil {
		t.Fatal(err)
	}
}

// fastest is the least time of nine requests of 150 KiB, each of which must be accepted.
func fastest(t *testing.T, s *apptest.Supplier) time.Duration {
	t.Helper()
	items := make([]object, 150)
	for i := range items {
		items[i] = item(object{"material_id": i, "material_variant": strings.Repeat("v", 1000)})
	}
	least := time.Hour
	for range 9 {
		begin := time.Now()
		want(t, s.Do(t, http.MethodPost, requests, request(nextID(), object{"materials": items})), http.StatusCreated)
		least = min(least, time.Since(begin))
	}
	return least
}

func TestTooLarge_ends_its_connection(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	s := h.Supplier(t, "--scopes", "material-requests,estimates:write")
	bearer, size := "Authorization: Bearer "+s.AccessToken(), 1<<20+1
	var group sync.WaitGroup
	for _, path := range []string{requests, estimatesPath(1)} {
		group.Go(func() {
			first := head("POST "+path, bearer, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", size)) +
				strings.Repeat(" ", size)
			answers := raw(t, h, first+head("GET "+ping, bearer))
			if len(answers) != 1 || answers[0].StatusCode != http.StatusRequestEntityTooLarge || !answers[0].Close {
				t.Errorf("%s: %d answers: %+v", path, len(answers), answers)
			}
		})
	}
	group.Wait()
}

func TestConfiguration_names_every_bad_value_once_and_makes_nothing(t *testing.T) {
	t.Parallel()
	bad := []string{
		"HTTP_ADDR=foo", "ADMIN_ADDR=127.0.0.1:99999", "DATABASE_URL=postgres://x:hunter2@h:port/db",
		"NATS_URL=nats://127.0.0.1:1", "NATS_CREDS=/nope",
		"JWT_SIGNING_KEYS=hunter2", "SECRETS_KEY=hunter2", "WEBHOOK_SIGNING_SECRETS=hunter2",
		"OTEL_EXPORTER_OTLP_ENDPOINT=:::bad",
		"WEBHOOK_TIMEOUT=15", "WORKER_CONCURRENCY=x", "RECEIVER_CONCURRENCY=0", "ESTIMATES_WEBHOOK_BASE_URL=ftp://x",
		"SPORTMONKS_BASE_URL=x",
	}
	for _, name := range []string{"api", "worker"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			cmd := exec.CommandContext(t.Context(), apptest.Binary(t, name))
			cmd.Env = append(slices.Clone(bad), "DATA_DIR="+data)
			var printed bytes.Buffer
			cmd.Stderr = &printed
			_ = cmd.Run() // the exit code says it
			if code := cmd.ProcessState.ExitCode(); code != 2 {
				t.Errorf("exit code %d", code)
			}
			for _, variable := range bad {
				variable, _, _ = strings.Cut(variable, "=")
				if n := strings.Count(printed.String(), "\n"+variable+": "); n != 1 && variable != "NATS_URL" {
					t.Errorf("%s is named %d times", variable, n)
				}
			}
			if strings.Contains(printed.String(), "hunter2") {
				t.Error("a value is shown")
			}
			if _, err := os.Stat(data); err == nil {
				t.Error("DATA_DIR was made")
			}
			if t.Failed() {
				t.Log(printed.String())
			}
		})
	}
	t.Run("a worker without the apis' address", func(t *testing.T) {
		t.Parallel()
		h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for one that runs
		defer cancel()
		cmd := exec.CommandContext(ctx, apptest.Binary(t, "worker"))
		for name, value := range h.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		text, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 2 ||
			!strings.Contains(string(text), "ESTIMATES_WEBHOOK_BASE_URL: required") {
			t.Errorf("exit code %d: %s", code, text)
		}
	})
}

func TestStop_DRAIN_DELAY_takes_nothing_from_the_drain(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{"DRAIN_DELAY": "25s"}})
			s := h.Supplier(t)
			uploading(t, h, head("POST "+requests, "Authorization: Bearer "+s.AccessToken(), "Content-Type: application/json",
				"Content-Length: 1000"))
			begin := time.Now()
			if code := h.APIs[0].Stop(); code != 0 {
				t.Errorf("exit code %d after %v", code, time.Since(begin))
			}
			if took := time.Since(begin); took < 25*time.Second {
				t.Errorf("it ended after %v, without the delay", took)
			}
			if late := "the worker did not drain in time"; strings.Contains(h.APIs[0].Log(), late) {
				t.Error(late)
			}
		})
	}
}

func TestFiles_of_DATA_DIR_are_their_owner_s_alone(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	s := h.Supplier(t)
	want(t, s.Do(t, http.MethodPost, requests, request(1, nil)), http.StatusCreated)
	n := 0
	err := filepath.Walk(h.Env["DATA_DIR"], func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			if n++; info.Mode().Perm() != 0o600 {
				t.Errorf("%s has the mode %o", filepath.Base(path), info.Mode().Perm())
			}
		}
		return err
	})
	if err != nil || n < 6 {
		t.Errorf("%d files, %v", n, err)
	}
}

// TestSigningKeys walks the guide's steps over two apis behind a load balancer, each restarted by itself.
func TestSigningKeys_rotate_under_load_and_no_request_fails(t *testing.T) {
	t.Parallel()
	h, s := faultHub(t, apptest.Production, map[string]string{"DRAIN_DELAY": "200ms"})
	lb := balancer(t, h)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var answered atomic.Int64
	for range 4 {
		group.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(callersPause) {
				a, err := h.Try(t, lb.URL+tokenPath, http.MethodPost, nil, "x-api-key", s.APIKey)
				if err != nil || a.Status != http.StatusOK {
					t.Errorf("no token: %v %d %s", err, a.Status, a.Body)
					return
				}
				bearer := "Bearer " + apptest.Decode[apptest.Tokens](t, a).AccessToken
				for range 4 { // whichever replica has issued it, the other one verifies it too
					if a, err := h.Try(t, lb.URL+ping, http.MethodGet, nil, "Authorization", bearer); err != nil ||
						a.Status != http.StatusOK {
						t.Errorf("a fresh token is refused: %v %d %s", err, a.Status, a.Header.Get("WWW-Authenticate"))
						return
					}
				}
				answered.Add(1)
			}
		})
	}
	before, next := h.Env["JWT_SIGNING_KEYS"], strings.TrimSpace(mustPrint(t, h, "keys", "generate"))
	for _, keys := range []string{before + "," + next, next + "," + before, next} {
		if keys == next {
			stop() // its tokens may still be of the old key: the guide waits until they have expired
			group.Wait()
		}
		h.Env["JWT_SIGNING_KEYS"] = keys
		for _, p := range h.APIs {
			if code := p.Stop(); code != 0 {
				t.Errorf("exit code %d after SIGTERM", code)
			}
			p.Restart()
			seen := answered.Load()
			wait.Until(t, "the load goes on",
				func() bool { return keys == next || t.Failed() || answered.Load() >= seen+50 })
		}
	}
	want(t, h.Do(t, http.MethodGet, ping, nil, "Authorization", "Bearer "+s.Token(t).AccessToken), http.StatusOK)
	stop()
	group.Wait()
}

// mustPrint is what a command prints.
func mustPrint(t *testing.T, h *apptest.Hub, args ...string) string {
	t.Helper()
	out, errOut, code := h.Command(t, args...)
	if code != 0 {
		t.Fatalf("api %v: exit code %d: %s", args, code, errOut)
	}
	return out
}
