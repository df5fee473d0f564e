package acceptance

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Each wrong setting that ends a start, and the line that says so. Nothing is opened or made by then.
func TestSettings_that_are_wrong_end_the_start_with_a_line_that_says_what_to_do(t *testing.T) {
	t.Parallel()
	production := []string{"DATABASE_URL=postgres://u@127.0.0.1:1/d", "NATS_URL=nats://127.0.0.1:1"}
	for _, test := range []struct {
		binary string
		env    []string
		says   []string
	}{
		{"api", production[1:], []string{"DATABASE_URL: required with NATS_URL, set it or remove that one: " +
			"a worker reaches no database in DATA_DIR"}},
		{"api", []string{"NATS_URL=nats://127.0.0.1:1", "DATABSE_URL=postgres://u@h/d", "NATS_PORT=tcp://10.0.0.1:4222",
			"NATS_SERVICE_HOST=10.0.0.1", "NATS_PORT_4222_TCP=tcp://10.0.0.1:4222"},
			[]string{"DATABASE_URL: required", "DATABSE_URL is set and means nothing: is it DATABASE_URL?"}},
		{"worker", []string{"NATS_ULR=nats://127.0.0.1:1"}, []string{"DATABASE_URL: required by the worker",
			"NATS_URL: required by the worker", "ESTIMATES_WEBHOOK_BASE_URL: required by the worker",
			"NATS_ULR is set and means nothing: is it NATS_URL?"}},
		{"api", production, []string{"JWT_SIGNING_KEYS: required with DATABASE_URL; `api keys generate` prints one",
			"WEBHOOK_SIGNING_SECRETS: required with DATABASE_URL; `api secrets generate` prints one",
			"SECRETS_KEY: required with DATABASE_URL; `api keys generate --secrets` prints one"}},
		{"api", []string{"SPORTMONKS_API_TOKEN=a\nb", "FALLBACK_API_KEY=a\rb", "PULSE_API_KEY=a\nb",
			"OPERATOR_TOKEN=0123456789\nabcdef"}, []string{"SPORTMONKS_API_TOKEN: must be one line without control characters",
			"FALLBACK_API_KEY: must be one line", "PULSE_API_KEY: must be one line", "OPERATOR_TOKEN: must be one line"}},
		{"api", []string{"JWT_SIGNING_KEYS=hidden!", "SECRETS_KEY=hidden", "WEBHOOK_SIGNING_SECRETS=hidden",
			"OPERATOR_TOKEN=hidden", "OPERATOR_WEBHOOK_URL=https://ops.example"}, []string{
			"JWT_SIGNING_KEYS: key 1 is not base64", "SECRETS_KEY: key 1 must be base64 of 32 bytes",
			"WEBHOOK_SIGNING_SECRETS: number 1 is not whsec_ and base64 of 24 to 64 bytes",
			"OPERATOR_TOKEN: must have at least 16 characters",
			"OPERATOR_WEBHOOK_SECRET: required with OPERATOR_WEBHOOK_URL; `api secrets generate` prints one"}},
		{"api", []string{"NATS_CREDS=/none", "NATS_CA=/none", "NATS_NKEY=/none", "NATS_CERT=/none",
			"DATABASE_URL=postgres://u@h/d?sslmode=verify-full&sslcert=/none&sslkey=/none"}, []string{
			"NATS_CREDS: names a file that cannot be read", "NATS_CA: names a file", "NATS_NKEY: names a file",
			"NATS_KEY: is needed with NATS_CERT",
			"DATABASE_URL: must be a PostgreSQL address, and the files that it names must be readable"}},
		{"api", []string{"HTTP_ADDR=8080", "ADMIN_ADDR=:99999", "DATA_DIR=/dev/null", "WEBHOOK_TIMEOUT=15",
			"HTTP_IDLE_TIMEOUT=0s", "WEBHOOK_RETRY_SCHEDULE=5", "SCOREBOARD_CACHE_TTL=-1s",
			"SPORTMONKS_BASE_URL=ftp://x", "PUBLIC_URL=hub.example",
			"ESTIMATES_WEBHOOK_BASE_URL=localhost:8080", "TRUSTED_PROXIES=10.0.0.0/8, proxy", `LOG_LEVEL="info"`},
			[]string{"HTTP_ADDR: must be host:port, such as :8080", "ADMIN_ADDR: its port must be 0 to 65535",
				"DATA_DIR: must be a directory", "HTTP_IDLE_TIMEOUT: must be positive",
				"WEBHOOK_TIMEOUT: must be a duration such as 15s",
				"WEBHOOK_RETRY_SCHEDULE: must be positive durations", "SCOREBOARD_CACHE_TTL: must not be negative",
				"SPORTMONKS_BASE_URL: must be an http:// or https:// address", "PUBLIC_URL: must be an http://",
				"ESTIMATES_WEBHOOK_BASE_URL: must be an http://", "TRUSTED_PROXIES: every item must be an IP address",
				"LOG_LEVEL: must be debug, info, warn or error"}},
	} {
		dir := t.TempDir()
		_, said, code := runIn(t, dir, test.binary, test.env)
		if code != 2 || len(files(t, dir)) > 1 || strings.Contains(said, "hidden") ||
			strings.Contains(said, "NATS_PORT") || strings.Contains(said, "NATS_SERVICE") {
			t.Errorf("%s: exit code %d, files %v:\n%s", test.env, code, files(t, dir), said)
		}
		for _, line := range test.says {
			if strings.Count(said, line) != 1 {
				t.Errorf("%s: %q is not said once:\n%s", test.env, line, said)
			}
		}
	}
}

func TestSettings_take_white_space_a_single_address_and_warn_of_a_name_a_letter_off(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{Env: map[string]string{
		"HTTP_ADDR": " [::1]:0\n", "SPORTMONKS_API_TOKEN": "token\n", "PULSE_API_KEY": " one , two\n", "LOG_LEVEL": "info ",
		"OPERATOR_TOKEN": " 0123456789abcdef\r\n", "WORKER_CONCURRENCY": " 8 ", "WEBHOOK_TIMEOUT": "5s ",
		"WEBHOOK_ALLOW_PRIVATE": "true\n", "NATS_MAX_BYTES": "100000000 ", "TRUSTED_PROXIES": "10.0.0.0/8, 192.168.0.0/16",
		"WEBHOOK_DENY_NETWORKS": " 203.0.113.0/24 , 2001:db8::1", "ADMIN_HOSTS": "a.example, b.example",
		"DATABSE_URL": "postgres://u:hidden@h/d", "NATS_PORT": "tcp://10.0.0.1:4222",
	}})
	if log := h.APIs[0].Log(); !strings.Contains(log, "DATABSE_URL is set and means nothing: is it DATABASE_URL?") ||
		strings.Contains(log, "NATS_PORT") || strings.Contains(log, "hidden") || strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("the log of the start is\n%s", log)
	}
	if !strings.HasPrefix(h.APIs[0].Address(), "[::1]:") {
		t.Errorf("it listens at %s", h.APIs[0].Address())
	}
	s := h.Supplier(t)
	becomes(t, s, submit(t, s, nil), "estimated") // the own endpoint is called at [::1]
	found := doctor(t, h, "api", nil)
	if status, detail, _ := found.said(t, "own endpoint"); status != "ok" || !strings.Contains(detail, "http://[::1]:") {
		t.Errorf("own endpoint is %s: %s", status, detail)
	}
	if status, detail, _ := found.said(t, "configuration"); status != "ok" {
		t.Errorf("configuration is %s: %s", status, detail)
	}
	found = doctor(t, h, "api", map[string]string{"HTTPS_PROXY": "http://u:hidden@127.0.0.1:3128"})
	if status, detail, _ := found.said(t, "proxy"); status != "warning" || !strings.Contains(detail, "webhooks") {
		t.Errorf("proxy is %s: %s", status, detail)
	}
	if text, err := json.Marshal(found); err != nil || !strings.Contains(string(text), "DATABSE_URL") {
		t.Errorf("the doctor does not warn of the name: %s %v", text, err)
	}
}

func TestSettings_keys_that_open_nothing_are_said_and_cost_no_delivery(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1,
				Env: map[string]string{"WEBHOOK_RETRY_SCHEDULE": "50ms,50ms,50ms,50ms,50ms,50ms,50ms"}})
			receiver := apptest.NewReceiver(t, nil)
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			all := append(h.APIs[:len(h.APIs):len(h.APIs)], h.Workers...)
			restart := func(key string) {
				h.Env["SECRETS_KEY"] = key
				for _, p := range all {
					p.Stop()
					p.Restart()
				}
			}
			right := h.Env["SECRETS_KEY"]
			restart(apptest.MustCommand[map[string]string](t, h, "keys", "generate", "--secrets")["value"])
			for _, p := range all {
				wait.Until(t, p.Name+" names SECRETS_KEY", func() bool {
					status, body := adminGet(t, p, "/readyz")
					return status == http.StatusOK && strings.Contains(body, `"status":"degraded"`) &&
						strings.Contains(body, "SECRETS_KEY opens 0 of 1 stored secrets") &&
						strings.Contains(p.Log(), "SECRETS_KEY does not work")
				})
			}
			for _, command := range [][]string{{"supplier", "create", "--name", "Late"},
				{"supplier", "rotate-webhook-secret", s.ID}} {
				if _, said, code := h.Command(t, command...); code != 1 || !strings.Contains(said, "SECRETS_KEY") {
					t.Errorf("%s: exit code %d: %s", command, code, said)
				}
			}
			s = h.Known(t, *s)
			s.Token(t)
			for range 2 { // when the second is estimated, the first was looked at
				becomes(t, s, submit(t, s, nil), "estimated")
			}
			wait.Until(t, "a test call is refused by the service itself", func() bool {
				return strings.Contains(string(s.Do(t, http.MethodPost, "/api/webhook-receiver/test", nil).Body),
					"the service cannot sign the call: its operator has to act")
			})
			deliveries := apptest.Decode[struct {
				Data []struct {
					Status       string
					AttemptCount int `json:"attempt_count"`
				}
			}](t, s.Do(t, http.MethodGet, "/api/webhook-deliveries", nil)).Data
			for _, d := range deliveries {
				if d.Status != "pending" || d.AttemptCount != 0 {
					t.Errorf("a delivery that cannot be signed is %+v", d)
				}
			}
			state := apptest.Decode[object](t, s.Do(t, http.MethodGet, "/api/webhook-receiver", nil))
			if len(deliveries) != 2 || len(receiver.Calls()) > 0 || state["consecutive_failures"] != 0. ||
				state["state"] != "active" {
				t.Errorf("%d deliveries, %d calls came, the receiver is %v", len(deliveries), len(receiver.Calls()), state)
			}
			restart(right)
			wait.Until(t, "both deliveries arrive", func() bool { return len(receiver.Calls()) >= 2 })
			for _, p := range all {
				if _, body := adminGet(t, p, "/readyz"); strings.Contains(body, "SECRETS_KEY") {
					t.Errorf("with the right key %s says %s", p.Name, body)
				}
			}
		})
	}
}

func TestSettings_no_new_key_is_made_where_another_one_sealed(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	h.Supplier(t)
	h.APIs[0].Stop()
	file := filepath.Join(h.Env["DATA_DIR"], "secrets_key")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, said, code := h.Command(t, "serve"); code != 1 || !strings.Contains(said, "put the file secrets_key back") {
		t.Errorf("without its key it starts: exit code %d: %s", code, said)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a new key was made")
	}
}

func TestSettings_a_worker_says_that_it_does_not_reach_the_api(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	stranger := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	for address, says := range map[string]string{"http://127.0.0.1:1": "http://127.0.0.1:1 does not answer",
		stranger.URL: "answers with status 404"} {
		worker := h.Run("worker", map[string]string{"ESTIMATES_WEBHOOK_BASE_URL": address})
		wait.Until(t, "the worker says it", func() bool {
			status, body := adminGet(t, worker, "/readyz")
			return status == http.StatusOK && strings.Contains(body, `"ESTIMATES_WEBHOOK_BASE_URL":"`) &&
				strings.Contains(body, says) &&
				strings.Contains(worker.Log(), `"level":"WARN","msg":"ESTIMATES_WEBHOOK_BASE_URL does not work"`)
		})
	}
	if _, body := adminGet(t, h.Workers[0], "/readyz"); strings.Contains(body, "ESTIMATES_WEBHOOK_BASE_URL") {
		t.Errorf("a worker that reaches it says %s", body)
	}
}

func TestSettings_the_operators_receiver_is_tried_by_notify_test_and_by_doctor(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	secret := webhook.NewSecret()
	h.Env["OPERATOR_WEBHOOK_SECRET"] = secret.Text()
	var answers atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = webhook.Verify(r.Header, body, time.Now(), secret)
		}
		if err != nil || !strings.Contains(string(body), `"type":"webhook.test"`) {
			t.Errorf("the event is %s: %v", body, err)
		}
		w.WriteHeader(int(answers.Load()))
	}))
	t.Cleanup(receiver.Close)
	for _, test := range []struct {
		address, says string
		status, code  int
	}{
		{"", "OPERATOR_WEBHOOK_URL is not set", 0, 1},
		{receiver.URL + "/hook?key=hidden", "status       204", http.StatusNoContent, 0},
		{receiver.URL + "/hook?key=hidden", "OPERATOR_WEBHOOK_URL answers with status 500", http.StatusInternalServerError,
			1},
		{"http://127.0.0.1:1/hook?key=hidden", "OPERATOR_WEBHOOK_URL does not answer: ", 0, 1},
	} {
		answers.Store(int64(test.status))
		change := map[string]string{"OPERATOR_WEBHOOK_URL": test.address}
		h.Env["OPERATOR_WEBHOOK_URL"] = test.address
		if test.address == "" {
			h.Env["OPERATOR_WEBHOOK_SECRET"] = ""
		}
		out, said, code := h.Command(t, "notify", "test")
		h.Env["OPERATOR_WEBHOOK_SECRET"] = secret.Text()
		if code != test.code || !strings.Contains(out+said, test.says) || strings.Contains(out+said, "hidden") {
			t.Errorf("%+v: exit code %d:\n%s%s", test, code, out, said)
		}
		if test.address == "" {
			continue
		}
		status, detail, _ := doctor(t, h, "api", change).said(t, "operator events")
		if (status == "ok") != (test.code == 0) || strings.Contains(detail, "hidden") {
			t.Errorf("%+v: the doctor says %s: %s", test, status, detail)
		}
	}
}
