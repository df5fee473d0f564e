package acceptance

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

func TestTraces_go_where_the_OTEL_variables_say_and_hold_no_secret(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var got bytes.Buffer
			collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if r.URL.Path != "/v1/traces" {
					t.Errorf("the collector is asked for %s", r.URL.Path)
				}
				_, _ = io.Copy(&got, r.Body) // a missing part fails below
				w.Header().Set("Content-Type", "application/x-protobuf")
			}))
			t.Cleanup(collector.Close)
			count := func(text string) int {
				mu.Lock()
				defer mu.Unlock()
				return bytes.Count(got.Bytes(), []byte(text))
			}
			has := func(text string) bool { return count(text) > 0 }
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1,
				Env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_BSP_SCHEDULE_DELAY": "100"}})
			receiver := apptest.NewReceiver(t, nil)
			s := h.Supplier(t, "--webhook-url", receiver.URL+"/of-the-supplier")
			a := s.Do(t, http.MethodPost, requests, request(nextID(), nil), "X-Request-Id", "traced-by-this-test")
			want(t, a, http.StatusCreated)
			for _, part := range []string{"supplyhub-api", "/api/material-requests", "estimate", "webhook attempt",
				"traced-by-this-test"} {
				wait.Until(t, "the traces show "+part, func() bool { return has(part) })
			}
			wait.Until(t, "the call, its estimation and both webhooks name the request's id",
				func() bool { return count("traced-by-this-test") >= 4 })
			for _, secret := range []string{s.APIKey, s.AccessToken(), s.RefreshToken(), s.WebhookSecret, "of-the-supplier"} {
				if has(secret) {
					t.Error("the traces hold a secret")
				}
			}
		})
	}
}
