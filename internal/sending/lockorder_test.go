package sending_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/materials/operator"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/sending"
)

const (
	contended = 300 // requests
	turns     = 40  // of each of those who redeliver
)

// contention is dead deliveries of acme's, of which another transaction goes on making dead what is sent again.
type contention struct {
	*rig
	self     *deliveries.SelfService
	operator *operator.Service
	ids      []string
}

func newContention(t *testing.T, db *database.DB) *contention {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	r := newRig(t, db, setup{idle: true,
		deps: func(d *sending.Deps) { d.Ledger = materials.NewRequestLedger(db, log, time.Now, nil) }})
	for id := int64(1); id <= contended; id++ {
		e := event("acme", id, 1)
		r.add(e)
		r.exec(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, shard,
			created_at,
			updated_at) VALUES ('acme', ?, 'failed', '', '', '', '', ?, 0, ?, 1)`, id, e.Round.UID, id)
	}
	// they were made in another order than that of their ids
	r.exec(`UPDATE webhook_deliveries SET status = 'dead', created_at = created_at & -262144 | request_id * 7919 % 262144`)
	c := &contention{rig: r, self: deliveries.NewSelfService(deliveries.SelfServiceDeps{DB: db, Now: time.Now,
		Local: time.Now, Deliveries: r.Keeper})}
	c.operator = operator.New(operator.Deps{DB: db, Now: time.Now, Events: r.Dispatcher})
	for _, d := range r.list(deliveries.Filter{}) {
		c.ids = append(c.ids, d.ID)
	}
	return c
}

// count reads a number.
func (r *rig) count(statement string, args ...any) (n int) {
	r.tb.Helper()
	if err := r.db.Reader(context.Background()).Raw(statement, args...).Scan(&n).Error; err != nil {
		r.tb.Fatal(err)
	}
	return n
}

func (r *rig) exec(statement string, args ...any) {
	r.tb.Helper()
	databasetest.Exec(r.tb, r.db, statement, args...)
}

func (c *contention) some(n int) []string {
	ids := make([]string, n)
	for i, j := range rand.Perm(len(c.ids))[:n] {
		ids[i] = c.ids[j]
	}
	return ids
}

// again makes single deliveries and requests what they were.
func (c *contention) again(ctx context.Context) {
	for ctx.Err() == nil {
		c.kill(ctx, c.some(1)[0])
	}
}

// kill makes a delivery and its request over and old.
func (c *contention) kill(ctx context.Context, id string) {
	for _, statement := range []string{
		`UPDATE webhook_deliveries SET status = 'dead', updated_at = 1 WHERE id = ?`,
		`UPDATE material_requests SET status = 'failed', updated_at = 1
			WHERE supplier_id = 'acme' AND id = (SELECT request_id FROM webhook_deliveries WHERE id = ?)`,
	} {
		if err := c.db.From(ctx).Exec(statement, id).Error; err != nil && !waited(err) && ctx.Err() == nil {
			c.tb.Error(err)
		}
	}
}

// waited reports whether a statement waited for a lock for as long as the database lets it: the machine is busy. A
// deadlock has another code.
func waited(err error) bool { return strings.Contains(err.Error(), "55P03") }

func TestRedeliveries_recoveries_pauses_and_retention_never_deadlock(t *testing.T) {
	t.Parallel()
	c := newContention(t, databasetest.Open(t, database.Postgres))
	ctx, dead := t.Context(), deliveries.Filter{Status: deliveries.Dead}
	ways := map[string]func(turn int) error{
		"recover": func(int) error {
			_, err := c.self.Recover(ctx, "acme", deliveries.SentFilter{Status: deliveries.Dead})
			return err
		},
		"recover the undelivered": func(int) error {
			_, err := c.self.Recover(ctx, "acme", deliveries.SentFilter{Status: deliveries.Recoverable()[0]})
			return err
		},
		"redeliver its own": func(int) error {
			for _, id := range c.some(20) {
				if err := c.self.Redeliver(ctx, "acme", id); err != nil && errs.KindOf(err) != errs.NotFound {
					return err
				}
			}
			return nil
		},
		"redeliver by ids": func(int) error { _, err := c.Redeliver(ctx, c.some(100)...); return err },
		"redeliver by status": func(int) error {
			_, err := c.RedeliverAll(ctx, dead)
			return err
		},
		"pause and resume": func(int) error {
			if err := c.Pause(ctx, "acme", receivers.PausedBySupplier); err != nil {
				return err
			}
			return c.Resume(ctx, "acme", receivers.PausedBySupplier)
		},
		"retention": func(turn int) error {
			_, err := c.operator.Prune(ctx, operator.Before(time.UnixMicro(int64(turn*contended/turns))))
			return err
		},
	}
	killing, stop := context.WithCancel(ctx)
	var killers, all sync.WaitGroup
	for range 2 {
		killers.Go(func() { c.again(killing) })
	}
	for name, way := range ways {
		all.Go(func() {
			for turn := range turns {
				switch err := way(turn); {
				case err == nil, errs.KindOf(err) == errs.NotFound: // retention was faster
				case errs.KindOf(err) == errs.Exhausted, waited(err): // another way recovers, or holds a lock
				default:
					t.Errorf("%s, turn %d: %v", name, turn, err)
				}
			}
		})
	}
	all.Wait()
	stop()
	killers.Wait()
	for _, id := range c.ids { // on a busy machine each turn of retention may have found all of them pending
		c.kill(ctx, id)
	}
	if err := ways["retention"](turns); err != nil {
		t.Error(err)
	}
	var left int
	if err := c.db.From(ctx).Raw(`SELECT count(*) FROM material_requests`).Scan(&left).Error; err != nil ||
		left == contended {
		t.Errorf("retention has deleted none of %d: %v", left, err)
	}
	if ledger, err := c.Verify(ctx); err != nil || len(ledger.Faults) > 0 {
		t.Errorf("verify found %v: %v", ledger.Faults[:min(len(ledger.Faults), 5)], err)
	}
}
