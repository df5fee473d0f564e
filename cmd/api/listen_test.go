package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// listening is a running `api listen`.
type listening struct {
	url string
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *listening) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *listening) printed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func listen(t *testing.T, args ...string) *listening {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l, ended := &listening{}, make(chan int, 1)
	reader, writer := io.Pipe()
	go func() { ended <- run(ctx, append([]string{"listen", "--addr", "127.0.0.1:0"}, args...), l, writer) }()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(line, "http://")
	address, _, _ := strings.Cut(rest, ",")
	l.url = "http://" + address
	return l
}

func (l *listening) send(t *testing.T, secret webhook.Secret) int {
	t.Helper()
	body, now := []byte(`{"type":"material_request.estimated"}`), time.Now()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.url+
		"/api/material-requests/1/delivery-estimates", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(webhook.HeaderID, "msg_1")
	r.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(webhook.HeaderSignature, webhook.Sign("msg_1", now, body, secret))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

func TestListen_prints_each_call_verifies_it_and_answers_as_its_flags_say(t *testing.T) {
	t.Parallel()
	secret := webhook.NewSecret()
	for answer, want := range map[string]int{"200": 200, "410": 410, "500": 500} {
		l := listen(t, "--secret", secret.Text(), "--answer", answer)
		if got := l.send(t, secret); got != want || !strings.Contains(l.printed(), "signature   holds") ||
			!strings.Contains(l.printed(), "msg_1") || !strings.Contains(l.printed(), "material_request.estimated") {
			t.Errorf("%s: answered %d\n%s", answer, got, l.printed())
		}
		if l.send(t, webhook.NewSecret()); !strings.Contains(l.printed(), "DOES NOT HOLD") {
			t.Errorf("another party's signature:\n%s", l.printed())
		}
	}
}

func TestListen_without_a_secret_says_that_nothing_is_checked(t *testing.T) {
	t.Parallel()
	l := listen(t, "-o", "json")
	l.send(t, webhook.NewSecret())
	var c call
	if err := json.Unmarshal([]byte(l.printed()), &c); err != nil || c.Signature != "unchecked" || c.ID != "msg_1" ||
		c.Path != "POST /api/material-requests/1/delivery-estimates" {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestListen_refuses_what_it_cannot_do(t *testing.T) {
	t.Parallel()
	l := listen(t)
	for args, want := range map[string]int{
		"listen --secret whsec_x": exitUsage, "listen --answer 201": exitUsage, "listen --addr " +
			strings.TrimPrefix(l.url, "http://"): exitFailure,
		"scoreboard sample --addr " + strings.TrimPrefix(l.url, "http://"): exitFailure,
	} {
		var out, errOut strings.Builder
		if code := run(t.Context(), strings.Fields(args), &out, &errOut); code != want ||
			!strings.Contains(errOut.String(), "-") {
			t.Errorf("%s: exit code %d, %s", args, code, &errOut)
		}
	}
}

func TestListen_takes_its_secret_from_the_environment(t *testing.T) {
	secret := webhook.NewSecret()
	t.Setenv("WEBHOOK_SECRET", secret.Text())
	l := listen(t, "-o", "json")
	l.send(t, secret)
	var c call
	if err := json.Unmarshal([]byte(l.printed()), &c); err != nil || c.Signature != "valid" {
		t.Errorf("got %+v, %v", c, err)
	}
}
