package portal

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/receivers"
)

// account is that of a supplier with a receiver.
type account struct{ receivers.Accounts }

func (account) Receivers(context.Context, []string) (map[string]receivers.Receiver, error) {
	return map[string]receivers.Receiver{"acme": {URL: "https://hooks.example.com"}}, nil
}

func (account) WebhookSecrets(context.Context, string) ([]receivers.SecretValidity, error) {
	return nil, nil
}

// Only the first success of a receiver that is failing sends at once what waits.
func TestPages_promise_what_the_next_success_does(t *testing.T) {
	t.Parallel()
	const after, scheduled = "after the next", "tried again by its schedule"
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, err := New(Deps{Now: time.Now, Receiver: receivers.NewSelfService(receivers.SelfServiceDeps{DB: db, Now: time.Now,
			Accounts: account{}, Receivers: receivers.NewRegistry(receivers.RegistryDeps{DB: db, Now: time.Now})})})
		if err != nil {
			t.Fatal(err)
		}
		engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})
		engine.GET("/receiver", s.Page(s.ShowReceiver))
		engine.GET("/overview", s.Page(func(c *gin.Context) error {
			view, err := s.deps.Receiver.Receiver(c.Request.Context(), caller.SupplierID(c))
			if err != nil {
				return err
			}
			return s.render(c, "overview", "", overview{Receiver: view, Waiting: 2})
		}))
		who := caller.Principal{SupplierID: "acme", Scopes: []string{caller.ScopeWebhooks}}
		for _, tt := range []struct {
			failures, failingSince, pausedBy string
			says, not                        string
		}{
			{"1", "NULL", "", scheduled, after}, {"4", "NULL", "", scheduled, after}, {"5", "1", "", after, scheduled},
			{"5", "1", "supplier", "Nothing is lost", after},
		} {
			databasetest.Exec(t, db, `DELETE FROM webhook_receivers`)
			databasetest.Exec(t, db, fmt.Sprintf(`INSERT INTO webhook_receivers (supplier_id, shard, consecutive_failures,
				failing_since, last_failure_at, last_error, paused_by, updated_at)
				VALUES ('acme', 1, %s, %s, 1, 'status 503', '%s', 1)`, tt.failures, tt.failingSince, tt.pausedBy))
			for _, page := range []string{"/overview", "/receiver"} {
				w := httptest.NewRecorder()
				engine.ServeHTTP(w, httptest.NewRequestWithContext(caller.With(t.Context(), who), http.MethodGet, page, nil))
				body := w.Body.String()
				if w.Code != http.StatusOK || !strings.Contains(body, tt.says) || strings.Contains(body, tt.not) {
					t.Errorf("%s after %s failures, paused by %q: %d, it does not say %q alone: %s", page, tt.failures, tt.pausedBy,
						w.Code, tt.says, body)
				}
			}
		}
	})
}
