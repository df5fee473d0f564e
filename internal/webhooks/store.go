package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// store is the room's tables. Hot statements are written for each engine: PostgreSQL takes a batch as arrays in one
// statement and one round trip, SQLite has no round trips and one writer.
type store struct{ db *database.DB }

func (s *store) postgres() bool { return s.db.Engine() == database.Postgres }

// front is the earliest pending delivery of a destination.
type front struct {
	destination string
	at          time.Time
}

// fronts reads one index entry for each destination with something pending, however much there is. LIMIT 1 says what min
// would, but over a young table PostgreSQL plans min as a walk through all that is pending.
func (s *store) fronts(ctx context.Context) ([]front, error) {
	var rows []struct {
		Destination string
		At          int64
	}
	err := s.db.Reader(ctx).Raw(`WITH RECURSIVE pending(destination) AS (
			SELECT (SELECT destination FROM webhook_deliveries WHERE status = 'pending' ORDER BY destination LIMIT 1)
			UNION ALL
			SELECT (SELECT d.destination FROM webhook_deliveries d WHERE d.status = 'pending' AND d.destination > pending.destination
				ORDER BY d.destination LIMIT 1)
			FROM pending WHERE pending.destination IS NOT NULL)
		SELECT destination, (SELECT d.next_attempt_at FROM webhook_deliveries d
			WHERE d.status = 'pending' AND d.destination = pending.destination ORDER BY d.next_attempt_at LIMIT 1) AS at
		FROM pending WHERE destination IS NOT NULL`).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read due destinations: %w", err)
	}
	found := make([]front, len(rows))
	for i, row := range rows {
		found[i] = front{row.Destination, time.UnixMicro(row.At)}
	}
	return found, nil
}

// claimedRow is a delivery whose next attempt is begun, or which is dead because its last one had no end.
type claimedRow struct {
	job
	dead bool
}

// places is where database.Query reads a claimed row to.
func (c *claimedRow) places() []any {
	return []any{&c.id, &c.destination, &c.supplierID, &c.requestID, &c.number, &c.series, &c.dead, &c.traceID, &c.body}
}

// claim begins the next attempt of as many due deliveries as are wanted of each destination, the longest due first; the
// attempt before becomes history. It must run in a transaction; two workers never claim the same one.
func (s *store) claim(ctx context.Context, wants map[string]int, now, lease time.Time, attempts int64) ([]claimedRow, error) {
	if s.postgres() {
		return s.claimPostgres(ctx, wants, now, lease, attempts)
	}
	return s.claimSQLite(ctx, wants, now, lease, attempts)
}

// insertEvents stores those events whose keys are new and tells which. It joins the transaction of ctx.
func (s *store) insertEvents(ctx context.Context, events []newEvent, now time.Time) (map[string]bool, error) {
	if s.postgres() {
		return s.insertEventsPostgres(ctx, events, now)
	}
	return s.insertEventsSQLite(ctx, events, now)
}

// insertDeliveries stores deliveries, with the attempts that are begun with them. It joins the transaction of ctx.
func (s *store) insertDeliveries(ctx context.Context, deliveries []newDelivery, now time.Time) error {
	if s.postgres() {
		return s.insertDeliveriesPostgres(ctx, deliveries, now)
	}
	return s.insertDeliveriesSQLite(ctx, deliveries, now)
}

// putBack makes first attempts that were begun and not sent undone: their deliveries are due now.
func (s *store) putBack(ctx context.Context, jobs []job, now time.Time) error {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.id
	}
	err := s.db.From(ctx).Exec(`UPDATE webhook_deliveries SET attempts = 0, series = 0, next_attempt_at = ?, updated_at = ?, last_started_at = NULL
		WHERE id IN ? AND attempts = 1 AND last_duration_us IS NULL`, now.UnixMicro(), now.UnixMicro(), ids).Error
	if err != nil {
		return fmt.Errorf("give webhook attempts back: %w", err)
	}
	return nil
}

// finish writes the ends of attempts down, and what they mean to their deliveries where these are pending. It tells which
// deliveries it moved.
func (s *store) finish(ctx context.Context, results []result, now time.Time) (map[string]bool, error) {
	write := s.finishSQLite
	if s.postgres() {
		write = s.finishPostgres
	}
	written, err := write(ctx, results, now)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		if _, last := written[r.id]; !last {
			if err := s.finishLate(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	return written, nil
}

// finishLate writes down the end of an attempt after which another one has begun: it is history.
func (s *store) finishLate(ctx context.Context, r result) error {
	err := s.db.From(ctx).Exec(`UPDATE webhook_attempts SET started_at = ?, duration_us = ?, status = ?, error = ?, response = ?
		WHERE delivery_id = ? AND number = ?`, r.began.UnixMicro(), r.took.Microseconds(), r.status, r.err, r.response, r.id, r.number).Error
	if err != nil {
		return fmt.Errorf("write late webhook attempt down: %w", err)
	}
	return nil
}

// eventKeys are those of the keys under which events are stored.
func (s *store) eventKeys(ctx context.Context, keys []string) (map[string]bool, error) {
	var found []string
	if err := s.db.From(ctx).Raw(`SELECT key FROM webhook_events WHERE key IN ?`, keys).Scan(&found).Error; err != nil {
		return nil, fmt.Errorf("read webhook events: %w", err)
	}
	return setOf(found), nil
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, text := range list {
		set[text] = true
	}
	return set
}
