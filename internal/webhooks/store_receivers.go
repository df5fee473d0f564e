package webhooks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/dispatch"
)

// backlogAge is how long deliveries must have been due before fewer new ones are handed over: they share the receiver.
const backlogAge = time.Second

// mostDue bounds one look for what is due.
const mostDue = 50_000

// anyOf returns the condition that a column is among the values of argument n, which values makes.
func (s *store) anyOf(column string, n int) string { return s.db.AnyOf(column, n) }

func (s *store) values(values any) any { return s.db.Values(values) }

// dueRow is a destination with work that is due, or will be.
type dueRow struct {
	destination string
	at          time.Time
	failures    int
}

// due reads the earliest waiting delivery to the own endpoint, due or not, and the receivers of the shards with
// something due: one index entry each, however many receivers there are and however much waits for them.
func (s *store) due(ctx context.Context, shards []int, now time.Time) ([]dueRow, error) {
	found, err := database.Query(ctx, s.db.SQL(ctx), `
		SELECT destination, at, failures FROM (
			SELECT 'own' AS destination, next_attempt_at AS at, 0 AS failures FROM webhook_deliveries
			WHERE status = 'pending' AND worker IS NULL AND destination = 'own' ORDER BY next_attempt_at LIMIT 1) AS own
		UNION ALL
		SELECT destination, at, failures FROM (
			SELECT supplier_id AS destination, due_at AS at, consecutive_failures AS failures FROM webhook_receivers
			WHERE due_at IS NOT NULL AND paused_by = '' AND due_at <= $2 AND `+s.anyOf("shard", 1)+` LIMIT $3) AS receivers`,
		[]any{s.values(shards), now.UnixMicro(), mostDue},
		func(r *dueRow) []any { return []any{&r.destination, scanTime{&r.at}, &r.failures} })
	if err != nil {
		return nil, fmt.Errorf("read what is due: %w", err)
	}
	return found, nil
}

// scanTime reads Unix microseconds into a time.
type scanTime struct{ to *time.Time }

// Scan implements sql.Scanner.
func (t scanTime) Scan(value any) error {
	micros, ok := value.(int64)
	if !ok {
		return fmt.Errorf("%T is no time", value)
	}
	*t.to = time.UnixMicro(micros).UTC()
	return nil
}

// lockDue holds the rows of those receivers that may be sent to by this worker, until the transaction ends. They are
// always locked in this order.
func (s *store) lockDue(ctx context.Context, suppliers []string, worker int64) ([]string, error) {
	if s.db.Spread() {
		return s.lockDueSpread(ctx, suppliers, worker)
	}
	found, err := database.Query(ctx, s.db.SQL(ctx), `
		SELECT r.supplier_id FROM webhook_receivers r WHERE `+s.anyOf("r.supplier_id", 1)+` AND r.paused_by = ''
			AND EXISTS (SELECT 1 FROM webhook_shards s WHERE s.shard = r.shard AND s.worker = $2)
		ORDER BY r.supplier_id`+s.db.RowLock(` FOR NO KEY UPDATE OF r`), []any{s.values(suppliers), worker},
		func(id *string) []any { return []any{id} })
	if err != nil {
		return nil, fmt.Errorf("lock receivers: %w", err)
	}
	return found, nil
}

// front selects when the earliest delivery that waits for a receiver is due; of names its supplier, where needed.
func front(of string) string {
	return `(SELECT d.next_attempt_at FROM webhook_deliveries d WHERE d.status = 'pending' AND d.worker IS NULL
		AND d.destination = webhook_receivers.supplier_id` + of + ` ORDER BY d.next_attempt_at LIMIT 1)`
}

// refreshDue stores when the locked receivers' earliest waiting deliveries are due. A receiver for which nothing is due
// stays due now while a transaction is under way that found it due early enough, and may make a delivery wait.
func (s *store) refreshDue(ctx context.Context, suppliers []string, now time.Time) error {
	return s.eachSupplier(suppliers, func(suppliers []string) error { return s.refreshDueOf(ctx, suppliers, now) })
}

func (s *store) refreshDueOf(ctx context.Context, suppliers []string, now time.Time) error {
	of, front := s.db.Of(suppliers, `supplier_id`, `$1`), front(s.db.Of(suppliers, `d.supplier_id`, `$1`))
	at, args := front, []any{s.values(suppliers)}
	if s.postgres() {
		// only FOR UPDATE excludes markDue's lock; what was committed before it is seen by the statement after it
		done, err := database.Query(ctx, s.db.SQL(ctx), `SELECT supplier_id FROM webhook_receivers
			WHERE supplier_id = ANY($1) AND coalesce(`+front+`, 9223372036854775807) > $2`+of+` FOR UPDATE SKIP LOCKED`,
			[]any{suppliers, now.UnixMicro()}, func(id *string) []any { return []any{id} })
		if err != nil {
			return fmt.Errorf("lock receivers with nothing due: %w", err)
		}
		at = `LEAST(` + front + `, CASE WHEN supplier_id = ANY($2) THEN NULL ELSE $3::bigint END)`
		args = append(args, done, now.UnixMicro())
	}
	_, err := s.db.SQL(ctx).ExecContext(ctx,
		`UPDATE webhook_receivers SET due_at = `+at+` WHERE `+s.anyOf("supplier_id", 1)+of, args...)
	if err != nil {
		return fmt.Errorf("store when receivers are due: %w", database.Translate(err))
	}
	return nil
}

// markDue makes receivers due at the given times, or earlier. It comes last in its transaction, after the deliveries.
// The row of a receiver that is due early enough is only kept from being due later, so that transactions that make
// deliveries of one supplier wait do not wait for each other.
func (s *store) markDue(ctx context.Context, at map[string]time.Time, now time.Time) error {
	delete(at, OwnEndpoint)
	if len(at) == 0 {
		return nil
	}
	const onConflict = ` ON CONFLICT (supplier_id) DO UPDATE SET due_at = excluded.due_at
		WHERE r.due_at IS NULL OR r.due_at > excluded.due_at`
	suppliers := slices.Sorted(maps.Keys(at))
	shards, times := make([]int64, len(suppliers)), make([]int64, len(suppliers))
	for i, id := range suppliers {
		shards[i], times[i] = int64(dispatch.ShardOf(id)), at[id].UnixMicro()
	}
	const insert = `INSERT INTO webhook_receivers AS r (supplier_id, shard, due_at, updated_at) `
	arrays := `
		WITH wanted AS (SELECT s, h, at FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS d(s, h, at)),
			enough AS (SELECT r.supplier_id FROM wanted JOIN webhook_receivers r ON r.supplier_id = s
				WHERE r.due_at <= at FOR KEY SHARE OF r)
		` + insert + `SELECT s, h, at, $4 FROM wanted WHERE NOT EXISTS (SELECT 1 FROM enough WHERE supplier_id = s)
			ORDER BY s`
	if s.db.Spread() { // rows on several servers are not locked together
		arrays = ``
	}
	err := s.eachRow(len(suppliers), ``, arrays, insert+`VALUES ($1, $2, $3, $4)`, onConflict,
		func(i int) []any { return []any{suppliers[i], shards[i], times[i], now.UnixMicro()} },
		func() []any { return []any{suppliers, shards, times, now.UnixMicro()} },
		func(statement string, args []any) error {
			_, err := s.db.SQL(ctx).ExecContext(ctx, statement, args...)
			return err
		})
	if err != nil {
		return fmt.Errorf("store when receivers are due: %w", database.Translate(err))
	}
	return nil
}

// eachRow runs a statement once over arrays on PostgreSQL, and once a row on SQLite, or where none is over arrays.
func (s *store) eachRow(n int, begin, arrays, row, end string, one func(i int) []any, all func() []any,
	run func(string, []any) error) error {
	if s.postgres() && arrays != "" {
		return run(begin+arrays+end, all())
	}
	for i := range n {
		if err := run(begin+row+end, one(i)); err != nil {
			return err
		}
	}
	return nil
}

// standing is what decides whether a new delivery to a receiver may be begun with its insertion.
type standing struct {
	supplierID string
	failures   int
	paused     bool
	backlog    bool // deliveries have waited for it for backlogAge
}

// standingColumns returns those of standing; an earlier due time than parameter before is a backlog.
func standingColumns(before int) string {
	return fmt.Sprintf(`r.supplier_id, r.consecutive_failures, r.paused_by <> '',
		r.due_at IS NOT NULL AND r.due_at <= $%d`, before)
}

// standings joins the transaction of ctx, so that what is paused before it stays unsent.
func (s *store) standings(ctx context.Context, suppliers []string, now time.Time) (map[string]standing, error) {
	if len(suppliers) == 0 {
		return map[string]standing{}, nil
	}
	list, err := database.Query(ctx, s.db.SQL(ctx),
		`SELECT `+standingColumns(2)+` FROM webhook_receivers r WHERE `+s.anyOf("r.supplier_id", 1),
		[]any{s.values(suppliers), now.Add(-backlogAge).UnixMicro()},
		func(r *standing) []any { return []any{&r.supplierID, &r.failures, &r.paused, &r.backlog} })
	if err != nil {
		return nil, fmt.Errorf("read receivers: %w", err)
	}
	found := make(map[string]standing, len(list))
	for _, r := range list {
		found[r.supplierID] = r
	}
	return found, nil
}

// overlooked returns receivers with deliveries that are due before their rows say: those that a worker of an earlier
// version made.
func (s *store) overlooked(ctx context.Context) (map[string]time.Time, error) {
	query := `
		WITH RECURSIVE pending(destination) AS (
			SELECT (SELECT destination FROM webhook_deliveries WHERE status = 'pending' AND worker IS NULL
				ORDER BY destination LIMIT 1)
			UNION ALL
			SELECT (SELECT d.destination FROM webhook_deliveries d WHERE d.status = 'pending' AND d.worker IS NULL
				AND d.destination > pending.destination ORDER BY d.destination LIMIT 1)
			FROM pending WHERE pending.destination IS NOT NULL),
		fronts AS (SELECT destination, (SELECT d.next_attempt_at FROM webhook_deliveries d
				WHERE d.status = 'pending' AND d.worker IS NULL AND d.destination = pending.destination
				ORDER BY d.next_attempt_at LIMIT 1) AS at
			FROM pending WHERE destination <> 'own')
		SELECT destination, at, 0 FROM fronts WHERE at IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM webhook_receivers r
				WHERE r.supplier_id = fronts.destination AND r.due_at <= fronts.at)`
	if s.db.Spread() {
		query = overlookedSpread
	}
	list, err := database.Query(ctx, s.db.SQL(ctx), query, nil, func(r *dueRow) []any {
		return []any{&r.destination, scanTime{&r.at}, &r.failures}
	})
	if err != nil {
		return nil, fmt.Errorf("look for overlooked deliveries: %w", err)
	}
	found := make(map[string]time.Time, len(list))
	for _, r := range list {
		found[r.destination] = r.at
	}
	return found, nil
}
