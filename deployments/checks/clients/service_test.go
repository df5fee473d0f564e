// Package clients_test has clients that others' generators made of the OpenAPI document walk the whole story against
// the built service: first as it answers, then with one more member in every object of every answer. It is a module of
// its own, so that go.mod stays the product's; `make check-clients` generates the clients into bin/clients and runs it.
package clients_test

import (
	"bytes"
	"encoding/json"
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
	"testing"
	"time"
)

// The tracker's sample has this device: 15 digits, which 32 bits do not hold.
const imei int64 = 356938035643809

// service is a running api with all that the story needs. Its addresses answer as it does, and with one more member.
type service struct {
	Plain, More          string
	PulseKey, TrackerKey string
	Receiver             string // takes every call
	command              func(t *testing.T, arguments ...string) map[string]any
}

// supplier returns the API key of a new supplier.
func (s *service) supplier(t *testing.T) string {
	t.Helper()
	return s.command(t, "supplier", "create", "--name", t.Name())["api_key"].(string)
}

var binary, _ = filepath.Abs("../../../bin/clients/api")

// start runs the service, and the sample of the football providers, until the test ends.
func start(t *testing.T) *service {
	t.Helper()
	address, scores, dir := freeAddress(t), freeAddress(t), t.TempDir()
	env := append(os.Environ(), "DATA_DIR="+dir, "HTTP_ADDR="+address, "ADMIN_ADDR="+freeAddress(t), "LOG_LEVEL=warn",
		"WEBHOOK_ALLOW_PRIVATE=true", "DRAIN_DELAY=0s", "PULSE_API_KEY=pulse-key-of-the-check", "FALLBACK_API_KEY=sample",
		"SPORTMONKS_API_TOKEN=sample", "SPORTMONKS_BASE_URL=http://"+scores+"/sportmonks",
		"BALLDONTLIE_BASE_URL=http://"+scores+"/balldontlie")
	run(t, env, "scoreboard", "sample", "--addr", scores)
	run(t, env, "serve")
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	t.Cleanup(receiver.Close)
	s := &service{Plain: "http://" + address, PulseKey: "pulse-key-of-the-check", Receiver: receiver.URL}
	s.More = withOneMoreMember(t, s.Plain)
	s.command = func(t *testing.T, arguments ...string) map[string]any {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append(arguments, "-o", "json")...)
		cmd.Env, cmd.Stderr = env, t.Output()
		out, err := cmd.Output()
		var made map[string]any
		if err != nil || json.Unmarshal(out, &made) != nil {
			t.Fatalf("api %s: %v: %s", strings.Join(arguments, " "), err, out)
		}
		return made
	}
	eventually(t, "the service is ready", func() bool { return answers(s.Plain + "/api/external/ping") })
	eventually(t, "the sample matches are served", func() bool { return answers("http://" + scores) })
	client := s.command(t, "tracker", "client", "create", "--name", "clients")
	s.command(t, "tracker", "load", "../../samples/tracker-records.ndjson", "--client", client["id"].(string))
	s.TrackerKey = client["api_key"].(string)
	return s
}

func run(t *testing.T, env []string, arguments ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, arguments...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, t.Output(), t.Output()
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 30*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: `make check-clients` builds it", err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // it was interrupted
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func answers(address string) bool {
	resp, err := http.Get(address) //nolint:gosec // the test's own server
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("gave up: %s", what)
		}
	}
}

// withOneMoreMember serves what the service answers with a member that its document does not have, in every object.
func withOneMoreMember(t *testing.T, service string) string {
	t.Helper()
	target, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(resp *http.Response) error {
			if !strings.Contains(resp.Header.Get("Content-Type"), "json") {
				return nil
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || len(body) == 0 {
				return err
			}
			decoder := json.NewDecoder(bytes.NewReader(body))
			decoder.UseNumber()
			var value any
			if err := decoder.Decode(&value); err != nil {
				return err
			}
			if body, err = json.Marshal(grown(value)); err != nil {
				return err
			}
			resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

func grown(value any) any {
	switch value := value.(type) {
	case []any:
		for i, v := range value {
			value[i] = grown(v)
		}
	case map[string]any:
		for name, v := range value {
			value[name] = grown(v)
		}
		value["a_member_of_tomorrow"] = map[string]any{"kind": "new", "values": []any{1.5, nil, "x"}}
	}
	return value
}

// TestClients runs the stories one after the other: a machine that checks has other work too.
func TestClients(t *testing.T) {
	s := start(t)
	for name, story := range map[string]func(t *testing.T, s *service, base, key string){
		"oapi-codegen": oapiStory, "ogen": ogenStory, "openapi-fetch": nodeStory("openapi-fetch"),
		"hey-api": nodeStory("hey-api"), "swagger-typescript-api": nodeStory("swagger-typescript-api"),
	} {
		for kind, base := range map[string]string{"as it answers": s.Plain, "with one more member": s.More} {
			t.Run(fmt.Sprintf("%s %s", name, kind), func(t *testing.T) { story(t, s, base, s.supplier(t)) })
		}
	}
}
