package deliveries

import (
	"context"
	"encoding/json"
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
	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/internal/round"
)

func TestPublicError_names_no_address(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial tcp 10.0.0.5:443: connect: connection refused":                           "the connection was refused",
		"read tcp 172.17.0.2:45678->93.184.216.34:443: read: connection reset by peer": "the connection was reset",

		"dial tcp: lookup hooks.example on 10.0.0.2:53: no such host":       notPublic,
		"dial tcp: lookup hooks.example on 10.0.0.2:53: server misbehaving": notPublic,

		"dial tcp 10.0.0.5:443: i/o timeout": "no answer in time",

		"dial tcp 10.1.2.3:443: connect: no route to host": "the receiver's network cannot be reached",

		"tls: failed to verify certificate: x509: certificate is valid for 10.0.0.5":           otherName,
		"tls: failed to verify certificate: x509: certificate has expired or is not yet valid": expired,
		"tls: failed to verify certificate: x509: certificate signed by unknown authority":     stranger,
		ErrIncomplete.Error() + ": x509: certificate signed by unknown authority":              lacking,
		"tls: failed to verify certificate: x509: cannot validate certificate for 10.0.0.5":    otherName,
		"net/http: TLS handshake timeout":                                                      late,
		"remote error: tls: certificate required":                                              clientTLS,
		"remote error: tls: protocol version not supported":                                    oldTLS,
		"remote error: tls: internal error":                                                    handshake,

		"http: server gave HTTP response to HTTPS client": "the receiver answered http where https was expected",

		"something from 10.0.0.5 that was never thought of":                      "the call failed",
		"dial tcp 93.184.216.34:443: the receiver's address is not a public one": notPublic,
		"EOF": "the connection was closed before an answer", "http2: client connection lost": late,
		"status 503":           "status 503",
		"no answer within 15s": "no answer within 15s", interrupted: interrupted,
	} {
		if got := PublicError(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// sentRows stores deliveries of acme's, the numbers from first to last, one each microsecond.
func sentRows(ctx context.Context, t *testing.T, db *database.DB, first, last int, status Status) {
	t.Helper()
	var b strings.Builder
	for n := first; n <= last; n++ {
		fmt.Fprintf(&b, `,('msg_1000%07d', %d, 1, 'acme', 'acme', %d, '%s', 1, 1, 0, %d, %d)`, n, n, n%100, status, n, n)
		if n%500 != 0 && n != last {
			continue
		}
		err := db.From(ctx).Exec(`INSERT INTO webhook_deliveries
			(id, uid, round, destination, supplier_id, request_id, status, attempts, series,
				next_attempt_at, created_at, updated_at) VALUES ` + b.String()[1:]).Error
		if err != nil {
			t.Fatal(err)
		}
		b.Reset()
	}
}

func TestRecover_takes_every_delivery_of_the_range_in_batches_and_none_besides_it(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.UnixMicro(1_000_000)
		s := selfService(t, db, now)
		const lost = 2*redeliverBatch + 500
		sentRows(t.Context(), t, db, 1, lost, Dead)
		sentRows(t.Context(), t, db, lost+1, lost+10, Failed)
		filter := SentFilter{Status: Dead, Since: time.UnixMicro(101), Until: time.UnixMicro(lost + 1)}
		if n, err := s.Recover(t.Context(), "acme", filter); err != nil || n != lost-100 {
			t.Fatalf("%d recovered: %v", n, err)
		}
		for status, want := range map[Status]int64{Pending: lost - 100, Dead: 100, Failed: 10, Delivered: 0, "": lost + 10} {
			n, err := s.store.count(t.Context(), Filter{Receiver: "acme", Status: status}, 10*redeliverBatch)
			if err != nil || n != want {
				t.Errorf("%d are %q, want %d: %v", n, status, want, err)
			}
		}
		if n, err := s.Recover(t.Context(), "other", filter); err != nil || n != 0 {
			t.Errorf("another supplier recovers %d: %v", n, err)
		}
		due, err := (&DueStore{s.store.Tables}).Due(t.Context(), []int{round.ShardOf("acme")}, now.Add(time.Second))
		if err != nil || len(due) != 1 || due[0].Destination != "acme" {
			t.Errorf("due is %+v: %v", due, err)
		}
	})
}

func TestHistory_puts_each_delivery_into_its_hour(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := &store{Tables{db}}
		sentRows(t.Context(), t, db, 1, 10, Delivered)
		sentRows(t.Context(), t, db, 11, 15, Dead)
		sentRows(t.Context(), t, db, 16, 17, Pending)
		buckets, err := s.history(t.Context(), "acme", time.UnixMicro(5), 4*time.Microsecond, 3)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(buckets[0].Delivered, buckets[1].Delivered, buckets[1].Lost, buckets[2].Lost, buckets[2].Pending,
			buckets[1].Start.UnixMicro())
		if got != "4 2 2 3 2 9" {
			t.Errorf("got %s: %+v", got, buckets)
		}
	})
}

func TestHistory_has_the_last_day_by_hours_and_the_last_week_by_quarters_of_a_day(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.Date(2026, 11, 24, 20, 30, 0, 0, time.UTC)
		s := selfService(t, db, now)
		for uid, ago := range []time.Duration{0, time.Hour, 23 * time.Hour, 24 * time.Hour, 6 * 24 * time.Hour,
			30 * 24 * time.Hour} {
			sentRows(t.Context(), t, db, uid+1, uid+1, Dead)
			exec(t.Context(), t, db, `UPDATE webhook_deliveries SET created_at = ? WHERE uid = ?`, now.Add(-ago).UnixMicro(),
				uid+1)
		}
		h, err := s.History(t.Context(), "acme")
		if err != nil || len(h.Hours) != 24 || len(h.Quarters) != 28 {
			t.Fatalf("%d hours and %d quarters: %v", len(h.Hours), len(h.Quarters), err)
		}
		lost := func(list []Bucket) (n []int64) {
			for _, b := range list {
				n = append(n, b.Lost)
			}
			return n
		}
		got := fmt.Sprint(h.Hours[0].Start.Hour(), lost(h.Hours), h.Quarters[27].Start.Hour(), lost(h.Quarters))
		if want := "21 [1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 1] 18 " +
			"[0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 2 0 0 0 2]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A receiver that answers 500 and a supplier that redelivers make an attempt a second.
func TestShow_has_all_attempts_of_a_delivery_and_a_page_has_the_newest(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx, s := t.Context(), selfService(t, db, time.UnixMicro(1_000_000))
		sentRows(ctx, t, db, 1, 1, Pending)
		ids, err := database.Column[string](ctx, db.SQL(ctx), `SELECT id FROM webhook_deliveries`)
		if err != nil {
			t.Fatal(err)
		}
		exec(ctx, t, db, `INSERT INTO webhook_events (uid, round, supplier_id, trace_id, body, created_at)
			VALUES (1, 1, 'acme', '', ?, 1)`, pack.Pack([]byte(`{"a":"<"}`)))
		engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})
		engine.GET("/:id", httpapi.Handle(func(c *gin.Context) error {
			c.Request = c.Request.WithContext(caller.With(c.Request.Context(), caller.Principal{SupplierID: "acme"}))
			return s.ShowDelivery(c)
		}))
		made := 0
		for _, n := range []int{0, 1, 2, partAttempts, partAttempts + 1, 2*partAttempts + 7} {
			var last any
			if n > 0 {
				last = n
			}
			exec(ctx, t, db, `UPDATE webhook_deliveries SET attempts = ?, last_started_at = ?`, n, last)
			for ; made < n-1; made++ {
				exec(ctx, t, db, `INSERT INTO webhook_attempts (delivery_id, supplier_id, number, started_at)
					VALUES (?, 'acme', ?, ?)`, ids[0], made+1, made+1)
			}
			w := httptest.NewRecorder()
			engine.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/"+ids[0], nil))
			var whole SentDetail
			if err := json.Unmarshal(w.Body.Bytes(), &whole); err != nil || w.Code != http.StatusOK ||
				len(whole.Attempts) != n || whole.Attempts == nil || string(whole.Event) != `{"a":"<"}` {
				t.Fatalf("%d of %d attempts, %d %v: %.300s", len(whole.Attempts), n, w.Code, err, w.Body)
			}
			for i, a := range whole.Attempts {
				if a.Number != int64(i+1) {
					t.Fatalf("the attempt %d is the number %d", i+1, a.Number)
				}
			}
			page, err := s.Show(ctx, "acme", ids[0])
			kept, keptErr := s.deps.Deliveries.ShowNewest(ctx, ids[0])
			if shown := min(n, pageAttempts); err != nil || keptErr != nil || len(page.Attempts) != shown ||
				len(kept.Attempts) != shown || n > 0 && page.Attempts[shown-1].Number != int64(n) {
				t.Errorf("the pages have %d and %d of %d: %v, %v", len(page.Attempts), len(kept.Attempts), n, err, keptErr)
			}
		}
	})
}
