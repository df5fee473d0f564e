package acceptance

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// handlerReceiver is a supplier's receiver as pkg/webhook makes it.
type handlerReceiver struct {
	URL    string
	mu     sync.Mutex
	events []webhook.Event
}

func newHandlerReceiver(t *testing.T, s *apptest.Supplier) *handlerReceiver {
	t.Helper()
	r := &handlerReceiver{}
	server := httptest.NewServer(webhook.Handler([]webhook.Secret{secret(t, s.WebhookSecret)},
		func(_ context.Context, e webhook.Event) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
			return nil
		}))
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// Events returns the events handled so far.
func (r *handlerReceiver) Events() []webhook.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]webhook.Event(nil), r.events...)
}
