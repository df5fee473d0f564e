package webhooks

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
)

// tables is what all stores share. Hot statements are written for each engine: PostgreSQL takes a batch as
// arrays in one statement and one round trip, SQLite has no round trips and one writer.
type tables struct{ db *database.DB }

type (
	store        struct{ tables } // reads, redelivers, verifies and deletes
	attemptStore struct{ tables } // stores events and deliveries, begins and ends attempts
	dueStore     struct{ tables } // when receivers are due
	healthStore  struct{ tables } // how receivers are
	workerStore  struct{ tables } // who lives, and owns which shard
)

func (s *tables) postgres() bool { return s.db.Engine() == database.Postgres }

// claimedRow is a delivery whose next attempt is begun, or which is dead because its last one had no end.
type claimedRow struct {
	begun
	dead bool
}

// places returns where database.Query reads a claimed row to.
func (c *claimedRow) places() []any {
	return []any{&c.id, &c.destination, &c.round.SupplierID, &c.round.RequestID, &c.round.UID, &c.round.Number,
		&c.number, &c.series, &c.dead, &c.traceID, &c.traceParent, &c.body}
}

// claim begins the next attempt of as many due deliveries as are wanted of each destination, the longest due first; the
// attempt before becomes history. It must run in a transaction; two workers never claim the same one.
func (s *attemptStore) claim(ctx context.Context, wants map[string]int, now time.Time, worker, attempts int64) (
	[]claimedRow, error) {
	if s.db.Spread() {
		return s.claimSpread(ctx, wants, now, worker, attempts)
	}
	if s.postgres() {
		return s.claimPostgres(ctx, wants, now, worker, attempts)
	}
	return s.claimSQLite(ctx, wants, now, worker, attempts)
}

// insertEvents stores the events of those rounds that have none and returns which, and how the suppliers' receivers
// are. It joins the transaction of ctx, so that what is paused before it stays unsent.
func (s *attemptStore) insertEvents(ctx context.Context, events []newEvent, suppliers []string,
	now time.Time) (map[round.Round]bool, map[string]standing, error) {
	if s.postgres() {
		return s.insertEventsPostgres(ctx, events, suppliers, now)
	}
	fresh, err := s.insertEventsSQLite(ctx, events, now)
	if err != nil {
		return nil, nil, err
	}
	known, err := (&dueStore{s.tables}).standings(ctx, suppliers)
	return fresh, known, err
}

// insertDeliveries stores deliveries, with the attempts that are begun with them. It joins the transaction of ctx.
func (s *attemptStore) insertDeliveries(ctx context.Context, deliveries []newDelivery, now time.Time) error {
	if s.postgres() {
		return s.insertDeliveriesPostgres(ctx, deliveries, now)
	}
	return s.insertDeliveriesSQLite(ctx, deliveries, now)
}

// putBack makes first attempts that were begun and not sent undone: their deliveries are due now. Each is named by its
// worker and by when it began. It must run in a transaction.
func (s *attemptStore) putBack(ctx context.Context, attempts []begun, now time.Time) error {
	type beginning struct{ worker, at int64 }
	byBegin, due := map[beginning][]string{}, map[string]time.Time{}
	for _, j := range attempts {
		key := beginning{j.worker, j.at.UnixMicro()}
		byBegin[key] = append(byBegin[key], j.id)
	}
	for key, ids := range byBegin {
		destinations, err := database.Query(ctx, s.db.SQL(ctx),
			`UPDATE webhook_deliveries SET attempts = 0, series = 0, worker = NULL,
				next_attempt_at = $1, updated_at = $1, last_started_at = NULL
			WHERE worker + 0 = $2 AND attempts = 1 AND last_started_at = $3 AND `+s.anyOf("id", 4)+` RETURNING destination`,
			[]any{now.UnixMicro(), key.worker, key.at, s.values(ids)}, func(d *string) []any { return []any{d} })
		if err != nil {
			return fmt.Errorf("give webhook attempts back: %w", err)
		}
		for _, destination := range destinations {
			due[destination] = now
		}
	}
	return (&dueStore{s.tables}).markDue(ctx, due, now)
}

// finish writes down the ends of those attempts that are still this worker's, with what they mean to their deliveries,
// and returns the ids of these.
func (s *attemptStore) finish(ctx context.Context, results []result, now time.Time) (map[string]bool, error) {
	if !s.postgres() {
		return s.finishSQLite(ctx, results, now)
	}
	written := make(map[string]bool, len(results))
	supplier := func(r result) string { return r.round.SupplierID }
	err := database.BySupplier(s.db, results, supplier, func(results []result) error {
		some, err := s.finishPostgres(ctx, results, now)
		maps.Copy(written, some)
		return err
	})
	return written, err
}

// written runs a statement that returns the ids of what it wrote.
func (s *attemptStore) written(ctx context.Context, statement string, args ...any) (map[string]bool, error) {
	ids, err := database.Query(ctx, s.db.SQL(ctx), statement, args, func(id *string) []any { return []any{id} })
	if err != nil {
		return nil, fmt.Errorf("write webhook attempts down: %w", err)
	}
	return setOf(ids), nil
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, text := range list {
		set[text] = true
	}
	return set
}
