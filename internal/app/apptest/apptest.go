// Package apptest starts the built binaries as an operator would, on either stack, and speaks to them over HTTP.
// Every answer that its client receives is checked against the OpenAPI document.
package apptest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/httpapi/openapitest"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Stack names one of the two ways in which the service runs.
type Stack string

// The two stacks.
const (
	Embedded   Stack = "embedded"   // one api process with SQLite, JetStream and the worker inside
	Production Stack = "production" // PostgreSQL, NATS, two apis, two workers
)

// Stacks are both, for tests that loop.
var Stacks = []Stack{Embedded, Production}

// Hub is a running service.
type Hub struct {
	Stack   Stack
	APIs    []*Process
	Workers []*Process
	NATS    *queuetest.Server // nil when embedded, or when NATS_URL was given
	Env     map[string]string // what every process gets
	HTTP    *http.Client      // checks every answer against the OpenAPI document
	Next    bool              // from now on commands, and processes that start, are of a version with one more migration
	tb      testing.TB

	supervised bool
}

// Options change how a Hub is started.
type Options struct {
	Each          func(name string) map[string]string // more environment of one process; nil: none
	APIs, Workers int                                 // production only; default 2 and 2
	// production only: each binary has the rights that deployments/ gives it, commands have the owner's
	LeastRights bool
	// production only: PgBouncer's mode, session or transaction, between the processes and PostgreSQL
	Pooler string
	// added to every process's environment; DATABASE_URL and NATS_URL here name the test's own
	Env map[string]string
	// a process that ends at its start because it cannot reach the database is started again, as a supervisor does: for
	// tests that cut its connections
	Supervised bool
}

// Start runs a fresh service that ends with the test.
func Start(tb testing.TB, stack Stack, options Options) *Hub {
	tb.Helper()
	h := &Hub{Stack: stack, tb: tb, supervised: options.Supervised, Env: map[string]string{
		"HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0", "DATA_DIR": tb.TempDir(), "LOG_FORMAT": "json",
		"WEBHOOK_ALLOW_PRIVATE": "true", "DRAIN_DELAY": "0s", "PATH": os.Getenv("PATH"), "HOME": tb.TempDir(),
	}}
	apis := 1
	each := options.Each
	if each == nil {
		each = func(string) map[string]string { return nil }
	}
	if stack == Production {
		apis = orDefault(options.APIs, 2)
		if options.Env["NATS_URL"] == "" {
			h.NATS = startNATS(tb, options.LeastRights)
			h.Env["NATS_URL"] = h.NATS.URL()
		}
		if options.Env["DATABASE_URL"] == "" {
			h.Env["DATABASE_URL"] = databasetest.Service(tb)
			if options.Pooler != "" {
				h.Env["DATABASE_URL"] = databasetest.Pooled(tb, h.Env["DATABASE_URL"], options.Pooler, "supplyhub_api",
					"supplyhub_worker", "supplyhub_tracker")
			}
		}
		for variable, generate := range map[string]func() (string, error){
			"JWT_SIGNING_KEYS": supplierauth.GenerateSigningKey, "SECRETS_KEY": supplierauth.GenerateSecretsKey,
			"WEBHOOK_SIGNING_SECRETS": func() (string, error) { return webhook.NewSecret().Text(), nil },
		} {
			text, err := generate()
			if err != nil {
				tb.Fatal(err)
			}
			h.Env[variable] = text
		}
	}
	maps.Copy(h.Env, options.Env)
	h.HTTP = &http.Client{
		Timeout:       70 * time.Second,
		Transport:     openapitest.Validator(tb).Transport(tb, &http.Transport{MaxIdleConnsPerHost: 128}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if options.LeastRights {
		each = h.leastRights()
	}
	for range apis {
		h.APIs = append(h.APIs, h.Run("api", each("api")))
	}
	if stack == Production {
		for range orDefault(options.Workers, 2) {
			h.Workers = append(h.Workers, h.runWorker(each("worker")))
		}
	}
	return h
}

func startNATS(tb testing.TB, users bool) *queuetest.Server {
	tb.Helper()
	if users {
		return queuetest.NewWithConfig(tb, deployment("nats-users.conf"), "api", "worker")
	}
	return queuetest.New(tb)
}

// leastRights makes the schema and the roles as an operator does; the answer is each binary's environment.
func (h *Hub) leastRights() func(name string) map[string]string {
	h.tb.Helper()
	if _, errOut, code := h.Command(h.tb, "migrate"); code != 0 {
		h.tb.Fatalf("api migrate: exit code %d: %s", code, errOut)
	}
	owner := h.Env["DATABASE_URL"]
	databasetest.Script(h.tb, owner, deployment("postgres-roles.sql"))
	if _, given := h.Env["TRACKER_DATABASE_URL"]; !given {
		h.Env["TRACKER_DATABASE_URL"] = databasetest.As(h.tb, owner, "supplyhub_tracker")
	}
	return func(name string) map[string]string {
		env := map[string]string{"DATABASE_URL": databasetest.As(h.tb, owner, "supplyhub_"+name),
			"NATS_URL": h.NATS.URLOf(name)}
		if name == "worker" {
			env["TRACKER_DATABASE_URL"] = ""
		}
		return env
	}
}

// deployment returns the path of a file in deployments/.
func deployment(name string) string { return filepath.Join(root(), "deployments", name) }

// root returns the tree's directory.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

func orDefault(n, fallback int) int {
	if n == 0 {
		return fallback
	}
	return n
}

// RunWorker starts one more worker; its own-endpoint calls go to the first api.
func (h *Hub) RunWorker() *Process {
	h.tb.Helper()
	return h.runWorker(nil)
}

func (h *Hub) runWorker(extra map[string]string) *Process {
	h.tb.Helper()
	env := map[string]string{"ESTIMATES_WEBHOOK_BASE_URL": h.BaseURL()}
	maps.Copy(env, extra)
	return h.Run("worker", env)
}

// URL returns the address of path at the i-th api.
func (h *Hub) URL(i int, path string) string {
	return "http://" + h.APIs[i%len(h.APIs)].Address() + path
}

// BaseURL returns ESTIMATES_WEBHOOK_BASE_URL when the test set it, otherwise the first api's address.
func (h *Hub) BaseURL() string {
	if u := h.Env["ESTIMATES_WEBHOOK_BASE_URL"]; u != "" {
		return u
	}
	return h.URL(0, "")
}

// environ returns the environment of one process.
func (h *Hub) environ(extra map[string]string) []string {
	env := maps.Clone(h.Env)
	if h.Next {
		env["SUPPLYHUB_TEST_NEXT"] = "1"
	}
	maps.Copy(env, extra)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// Command runs an operator command of bin/api and returns what it printed and its exit code.
func (h *Hub) Command(tb testing.TB, args ...string) (stdout, stderr string, code int) {
	tb.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(tb.Context()), Binary(tb, "api"), args...)
	cmd.Env = h.environ(nil)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		tb.Fatalf("run api %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// MustCommand runs an operator command with -o json and decodes its output.
func MustCommand[T any](tb testing.TB, h *Hub, args ...string) T {
	tb.Helper()
	out, errOut, code := h.Command(tb, append(args, "-o", "json")...)
	if code != 0 {
		tb.Fatalf("api %s: exit code %d: %s", strings.Join(args, " "), code, errOut)
	}
	var v T
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		tb.Fatalf("api %s printed no JSON: %v\n%s", strings.Join(args, " "), err, out)
	}
	return v
}

// ServiceSecret returns the service's own webhook secrets as configured, or as the embedded default has made them.
func (h *Hub) ServiceSecret(tb testing.TB) string {
	tb.Helper()
	return h.own(tb, "WEBHOOK_SIGNING_SECRETS", "webhook_signing_secrets")
}

// own returns a key as configured, or as the embedded default keeps it in the file.
func (h *Hub) own(tb testing.TB, variable, file string) string {
	tb.Helper()
	if text := h.Env[variable]; text != "" {
		return text
	}
	text, err := os.ReadFile(filepath.Join(h.Env["DATA_DIR"], file))
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
