package receivers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
)

// at is a receiver's address in these tests.
type at struct{}

func (at) Receivers(_ context.Context, suppliers []string) (map[string]Receiver, error) {
	return map[string]Receiver{suppliers[0]: {URL: "https://hooks.example.com"}}, nil
}

// newRegistry returns one that pauses a receiver as soon as it fails.
func newRegistry(db *database.DB) *Registry {
	return NewRegistry(RegistryDeps{DB: db, Log: slog.New(slog.DiscardHandler), Now: time.Now, Addresses: at{},
		Deliveries: deliveries.NewKeeper(deliveries.KeeperDeps{DB: db, Now: time.Now}), PauseAfter: 1,
		Announce: func(bool, string) {}})
}

func TestPause_of_the_service_says_why_also_at_another_address(t *testing.T) {
	t.Parallel()
	const failed, gone, pause, stored, moved, removed, resumed = "failed", "gone", "pause", "stored", "moved", "removed",
		"resumed"
	five := strings.Repeat(failed+" ", dispatch.FailingAt)
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for i, tt := range []struct {
			steps     string
			gone      bool
			lastError string // how it begins
		}{
			{five + "stored", false, "status 503"},
			{five + "stored moved", false, ""},
			{five + "stored moved moved", false, ""},
			{five + "stored removed", false, ""},
			{five + "stored moved resumed gone pause", true, ""},
			{five + "stored moved resumed gone pause stored", true, "status 410"},
			{"gone pause", true, ""},
			{"gone pause moved", true, ""},
			{"gone pause stored", true, "status 410"},
			{"gone pause stored moved", true, ""},
			{"gone pause stored moved moved", true, ""},
			{"gone pause stored failed stored", true, "status 503"}, // that was under way
			{"gone pause stored failed stored moved", true, ""},
			{"failed stored gone pause", true, "status 503"},
			{"failed stored gone pause moved", true, ""},
		} {
			d, id, url := newRegistry(db), fmt.Sprint("s", i), "https://hooks.example.com"
			answered := func(status int, end deliveries.Status) deliveries.Result {
				r := deliveries.NewResult(deliveries.Begun{Destination: id}, deliveries.Answer{Status: status},
					deliveries.Outcome{Status: end}, time.Unix(1, 0), 0)
				r.Address = AddressOf(url)
				d.Learn(t.Context(), r, dispatch.Streak{})
				return r
			}
			var last deliveries.Result
			for step := range strings.FieldsSeq(tt.steps) {
				err := db.InTx(t.Context(), "test", func(ctx context.Context) (err error) {
					switch step {
					case failed:
						answered(http.StatusServiceUnavailable, deliveries.Pending)
					case gone:
						last = answered(http.StatusGone, deliveries.Failed)
					case pause:
						err = d.PauseGone(ctx, last)
					case moved:
						url += "/other"
						err = d.Moved(ctx, id, url)
					case removed:
						err = d.Moved(ctx, id, "")
					}
					return err
				})
				if step == stored {
					d.storeHealth(t.Context())
				} else if step == resumed {
					err = errors.Join(err, d.Resume(t.Context(), id, PausedBySupplier))
				}
				if err != nil {
					t.Fatalf("%s: %s: %v", tt.steps, step, err)
				}
			}
			state, err := d.ReceiverState(t.Context(), id)
			view, condition := ReceiverView{}, state.Condition()
			state.show(&view)
			paused := !strings.HasSuffix(tt.steps, removed)
			if err != nil || (state.PausedBy == PausedByService) != paused || view.Gone() != tt.gone ||
				condition.Gone() != tt.gone {
				t.Errorf("%s: paused by %q, gone %v, %v, %v; want %v", tt.steps, state.PausedBy, view.Gone(), condition.Gone(), err,
					tt.gone)
			}
			said := ""
			if view.LastError != nil {
				said = *view.LastError
			}
			for _, text := range []string{said, condition.LastError, state.LastError} {
				if !strings.HasPrefix(text, tt.lastError) || tt.lastError == "" && text != "" {
					t.Errorf("%s: it shows the last error %q, want %q", tt.steps, text, tt.lastError)
				}
			}
		}
	})
}

func TestIllStates_are_those_of_receivers_that_are_called(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d, want := newRegistry(db), map[string]bool{}
		for i, s := range []struct {
			url      string
			active   bool
			failing  any
			pausedBy string
			ill      bool
		}{
			{"https://x", true, 1, "", true}, {"https://x", true, nil, "service", true}, {"https://x", true, nil, "", false},
			{"", true, 1, "", false}, {"", true, nil, "operator", false},
			{"https://x", false, 1, "", false}, {"https://x", false, nil, "supplier", false},
		} {
			id := fmt.Sprint("s", i)
			databasetest.Exec(t, db, `INSERT INTO suppliers (id, name, webhook_url, active, access_ttl, refresh_ttl, scopes,
				created_at, updated_at) VALUES (?, '', ?, ?, 1, 1, '', 1, 1)`, id, s.url, s.active)
			databasetest.Exec(t, db, `INSERT INTO webhook_receivers (supplier_id, shard, failing_since, paused_by, updated_at)
				VALUES (?, 1, ?, ?, 1)`, id, s.failing, s.pausedBy)
			if s.ill {
				want[id] = true
			}
		}
		found, err := d.IllStates(t.Context())
		if err != nil || len(found) != len(want) {
			t.Errorf("%v, %v", found, err)
		}
		for id := range want {
			if _, in := found[id]; !in {
				t.Errorf("%s is not ill", id)
			}
		}
		databasetest.Exec(t, db, `INSERT INTO suppliers (id, name, webhook_url, access_ttl, refresh_ttl, scopes,
			created_at, updated_at) SELECT 'x' || n, '', 'https://x', 1, 1, '', 1, 1
			FROM (WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000) SELECT n FROM n) AS n`)
		databasetest.Exec(t, db, `INSERT INTO webhook_receivers (supplier_id, shard, updated_at)
			SELECT id, 1, 1 FROM suppliers WHERE id LIKE 'x%'`)
		databasetest.Exec(t, db, `ANALYZE`)
		plan := databasetest.Plan(t, db, `SELECT supplier_id FROM `+ill)
		if !strings.Contains(plan, "webhook_receivers_ill") || strings.Contains(plan, "Seq Scan") ||
			strings.Contains(plan, "SCAN s") || !strings.Contains(plan, "(id =") && !strings.Contains(plan, "(id=?)") {
			t.Errorf("what is well is read:\n%s", plan)
		}
	})
}
