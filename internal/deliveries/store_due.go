package deliveries

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/round"
)

// When something is due. webhook_receivers.due_at is never later than the moment when the earliest waiting delivery to
// the receiver is due. So an owner reads one index entry for each receiver with something due, and no delivery.
//
// Every transaction that makes a delivery wait (a, d, e, f, h) lowers due_at, as its last statement: MarkDue. Only the
// owner raises it. It does so after a claim (RefreshDue), and removes it for a receiver that cannot be called
// (SetAside), until that can be (DueAgain). A time that is too early costs one claim that finds nothing. A time that is
// too late would leave a delivery behind, so statements that raise it exclude those that lower it. The own endpoint has
// no such row: any worker claims for it, and its earliest delivery is looked up directly.

// mostDue bounds one look for what is due.
const mostDue = 50_000

// DueRow is a destination with work that is due, or will be.
type DueRow struct {
	Destination string
	At          time.Time
	Failures    int
	CatchingUp  bool // ClaimCatchingUp claims for it
}

// Due reads the earliest waiting delivery to the own endpoint, due or not, and the receivers of the shards with
// something due: one index entry each, however many receivers there are and however much waits for them. It changes and
// locks nothing: between it and the claim another worker may claim, or a receiver be paused.
func (s *DueStore) Due(ctx context.Context, shards []int, now time.Time) ([]DueRow, error) {
	found, err := database.Query(ctx, s.DB.SQL(ctx), `
		SELECT destination, at, failures, catching_up FROM (
			SELECT 'own' AS destination, next_attempt_at AS at, 0 AS failures, false AS catching_up FROM webhook_deliveries
			WHERE status = 'pending' AND worker IS NULL AND destination = 'own' ORDER BY next_attempt_at LIMIT 1) AS own
		UNION ALL
		SELECT destination, at, failures, catching_up FROM (
			SELECT supplier_id AS destination, due_at AS at, consecutive_failures AS failures,
				catch_up_to IS NOT NULL AS catching_up FROM webhook_receivers
			WHERE due_at IS NOT NULL AND paused_by = '' AND due_at <= $2 AND `+s.DB.AnyOf("shard", 1)+` LIMIT $3) AS receivers`,
		[]any{s.DB.Values(shards), now.UnixMicro(), mostDue},
		func(r *DueRow) []any { return []any{&r.Destination, scanTime{&r.At}, &r.Failures, &r.CatchingUp} })
	return found, errs.Doing("read what is due", err)
}

// scanTime reads Unix microseconds into a time, and null as the zero one.
type scanTime struct{ to *time.Time }

// Scan implements sql.Scanner.
func (t scanTime) Scan(value any) error {
	if value == nil {
		*t.to = time.Time{}
		return nil
	}
	micros, ok := value.(int64)
	if !ok {
		return fmt.Errorf("%T is no time", value)
	}
	*t.to = time.UnixMicro(micros).UTC()
	return nil
}

// LockDue holds the rows of those receivers that may be sent to by this worker, until the transaction ends, but for
// those that another transaction holds: a lost process may, for seconds, and no other receiver's deliveries wait for
// it.
//
// It is the first statement of c for receivers. A pause that is committed before it, or a shard that moved, is seen
// here, whatever this worker believes; a pause that comes later waits until the claim is committed. The lock is not one
// that MarkDue waits for, unless it has to lower due_at.
func (s *DueStore) LockDue(ctx context.Context, suppliers []string, worker int64) ([]string, error) {
	if s.DB.Spread() {
		return s.lockDueSpread(ctx, suppliers, worker)
	}
	found, err := database.Column[string](ctx, s.DB.SQL(ctx), `
		SELECT r.supplier_id FROM webhook_receivers r WHERE `+s.DB.AnyOf("r.supplier_id", 1)+` AND r.paused_by = ''
			AND EXISTS (SELECT 1 FROM webhook_shards s WHERE s.shard = r.shard AND s.worker = $2)
		ORDER BY r.supplier_id`+s.DB.RowLock(` FOR NO KEY UPDATE OF r SKIP LOCKED`), s.DB.Values(suppliers), worker)
	return found, errs.Doing("lock receivers", err)
}

// LockReceivers holds the rows of the receivers against every change until the transaction ends, but for those that are
// not free. It is for SetAside: from here on neither a new delivery (MarkDue) nor an address (DueAgain) comes in
// between.
func (s *DueStore) LockReceivers(ctx context.Context, suppliers []string) (locked []string, err error) {
	err = s.EachSupplier(slices.Sorted(slices.Values(suppliers)), func(suppliers []string) error {
		some, err := database.Column[string](ctx, s.DB.SQL(ctx), `SELECT supplier_id FROM webhook_receivers
			WHERE `+s.DB.AnyOf("supplier_id", 1)+s.DB.Of(suppliers, `supplier_id`, `$1`)+`
			ORDER BY supplier_id`+s.DB.RowLock(` FOR UPDATE SKIP LOCKED`), s.DB.Values(suppliers))
		locked = append(locked, some...)
		return err
	})
	return locked, errs.Doing("lock receivers", err)
}

// SetAside makes nothing due to locked receivers. Their deliveries wait on and cost no look.
func (s *DueStore) SetAside(ctx context.Context, suppliers []string) error {
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_receivers SET due_at = NULL WHERE `+
		s.DB.AnyOf("supplier_id", 1), s.DB.Values(suppliers))
	return errs.Doing("store that receivers cannot be called", err)
}

// DueAgain makes the owner look for what waits for the receiver. It joins the transaction of ctx, which gives the
// supplier an address or activates it; the owner is woken after its COMMIT. Nothing waits for a supplier without a
// row.
func (s *DueStore) DueAgain(ctx context.Context, supplierID string, now time.Time) error {
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_receivers SET due_at = $2 WHERE supplier_id = $1`,
		supplierID, now.UnixMicro())
	return errs.Doing("store when a receiver is due", err)
}

// front selects when the earliest delivery that waits for a receiver is due; of names its supplier, where needed.
func front(of string) string {
	return `(SELECT d.next_attempt_at FROM webhook_deliveries d WHERE d.status = 'pending' AND d.worker IS NULL
		AND d.destination = webhook_receivers.supplier_id` + of + ` ORDER BY d.next_attempt_at LIMIT 1)`
}

// RefreshDue stores when the locked receivers' earliest waiting deliveries are due. A receiver for which nothing is due
// stays due now while a transaction is under way that found it due early enough, and may make a delivery wait; so does
// one that catches up.
//
// It is the last statement of c. On PostgreSQL it is two: the first takes, where it is free, the lock that excludes
// MarkDue's; where it is not, the receiver stays due now and the next look claims for it again.
func (s *DueStore) RefreshDue(ctx context.Context, suppliers []string, now time.Time) error {
	return s.EachSupplier(suppliers, func(suppliers []string) error { return s.refreshDueOf(ctx, suppliers, now) })
}

func (s *DueStore) refreshDueOf(ctx context.Context, suppliers []string, now time.Time) error {
	of, front := s.DB.Of(suppliers, `supplier_id`, `$1`), front(s.DB.Of(suppliers, `d.supplier_id`, `$1`))
	at, args := `CASE WHEN catch_up_to IS NULL THEN `+front+` ELSE due_at END`, []any{s.DB.Values(suppliers)}
	if s.Postgres() {
		// only FOR UPDATE excludes MarkDue's lock; the statement after it sees all commits before it
		done, err := database.Column[string](ctx, s.DB.SQL(ctx), `SELECT supplier_id FROM webhook_receivers
			WHERE supplier_id = ANY($1) AND catch_up_to IS NULL AND coalesce(`+front+`, 9223372036854775807) > $2`+
			of+` FOR UPDATE SKIP LOCKED`,
			suppliers, now.UnixMicro())
		if err != nil {
			return fmt.Errorf("lock receivers with nothing due: %w", err)
		}
		at = `LEAST(` + front + `, CASE WHEN supplier_id = ANY($2) THEN NULL ELSE $3::bigint END)`
		args = append(args, done, now.UnixMicro())
	}
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_receivers SET due_at = `+at+`
		WHERE `+s.DB.AnyOf("supplier_id", 1)+of, args...)
	return errs.Doing("store when receivers are due", err)
}

// DueNow is MarkDue for receivers that are all due now.
func (s *DueStore) DueNow(ctx context.Context, destinations []string, now time.Time) error {
	return s.MarkDue(ctx, lists.Pairs(destinations, func(id string) (string, time.Time) { return id, now }), now)
}

// MarkDue makes receivers due at the given times, or earlier. It comes last in its transaction, after the deliveries.
// If a receiver is due early enough, its row is only kept from becoming due later. So transactions that make deliveries
// of one supplier wait do not wait for each other. It takes the own endpoint out of the given times.
func (s *DueStore) MarkDue(ctx context.Context, at map[string]time.Time, now time.Time) error {
	delete(at, OwnEndpoint)
	if len(at) == 0 {
		return nil
	}
	const onConflict = ` ON CONFLICT (supplier_id) DO UPDATE SET due_at = excluded.due_at
		WHERE r.due_at IS NULL OR r.due_at > excluded.due_at`
	suppliers := slices.Sorted(maps.Keys(at))
	shards, times := make([]int64, len(suppliers)), make([]int64, len(suppliers))
	for i, id := range suppliers {
		shards[i], times[i] = int64(round.ShardOf(id)), at[id].UnixMicro()
	}
	const insert = `INSERT INTO webhook_receivers AS r (supplier_id, shard, due_at, updated_at) `
	arrays := `
		WITH wanted AS (SELECT s, h, at FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS d(s, h, at)),
			enough AS (SELECT r.supplier_id FROM wanted JOIN webhook_receivers r ON r.supplier_id = s
				WHERE r.due_at <= at FOR KEY SHARE OF r)
		` + insert + `SELECT s, h, at, $4 FROM wanted WHERE NOT EXISTS (SELECT 1 FROM enough WHERE supplier_id = s)
			ORDER BY s`
	if s.DB.Spread() { // rows on several servers are not locked together
		arrays = ``
	}
	err := s.EachRow(len(suppliers), ``, arrays, insert+`VALUES ($1, $2, $3, $4)`, onConflict,
		func(i int) []any { return []any{suppliers[i], shards[i], times[i], now.UnixMicro()} },
		func() []any { return []any{suppliers, shards, times, now.UnixMicro()} },
		func(statement string, args []any) error {
			_, err := database.Exec(ctx, s.DB.SQL(ctx), statement, args...)
			return err
		})
	return errs.Doing("store when receivers are due", err)
}

// EachRow runs a statement once over arrays on PostgreSQL, and once a row on SQLite, or where none is over arrays: over
// several servers, which would lock the rows of a batch one server after the other.
func (s *Tables) EachRow(n int, begin, arrays, row, end string, one func(i int) []any, all func() []any,
	run func(string, []any) error) error {
	if s.Postgres() && arrays != "" {
		return run(begin+arrays+end, all())
	}
	for i := range n {
		if err := run(begin+row+end, one(i)); err != nil {
			return err
		}
	}
	return nil
}

// Paused returns those of the suppliers whose receivers are paused. Their begun attempts leave the ready queue (d).
func (s *DueStore) Paused(ctx context.Context, suppliers []string) ([]string, error) {
	found, err := database.Column[string](ctx, s.DB.SQL(ctx), `SELECT supplier_id FROM webhook_receivers
		WHERE paused_by <> '' AND `+s.DB.AnyOf("supplier_id", 1), s.DB.Values(suppliers))
	return found, errs.Doing("read which receivers are paused", err)
}

// Standing is what decides whether a new delivery to a receiver may be begun with its insertion: b, or else a.
type Standing struct {
	supplierID string
	Failures   int
	Paused     bool
}

const standingColumns = `r.supplier_id, r.consecutive_failures, r.paused_by <> ''`

// standings joins the transaction of ctx, so that a receiver paused before it gets nothing.
func (s *DueStore) standings(ctx context.Context, suppliers []string) (map[string]Standing, error) {
	if len(suppliers) == 0 {
		return map[string]Standing{}, nil
	}
	list, err := database.Query(ctx, s.DB.SQL(ctx),
		`SELECT `+standingColumns+` FROM webhook_receivers r WHERE `+s.DB.AnyOf("r.supplier_id", 1),
		[]any{s.DB.Values(suppliers)}, func(r *Standing) []any { return []any{&r.supplierID, &r.Failures, &r.Paused} })
	return lists.By(list, func(r Standing) string { return r.supplierID }), errs.Doing("read receivers", err)
}
