package receivers

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
)

// healthStore keeps how receivers are, in webhook_receivers, next to when something is due to them (package
// deliveries). Rows are made by the first that has something to say: a failure, a pause, a delivery that waits. Every
// statement here works for a supplier that has none yet.
type healthStore struct{ deliveries.Tables }

// saveHealth adds what was learnt about receivers to what is stored, and returns those that fail now, and those that
// had failed and have answered since: CatchUp has to follow for these, in the same transaction. A success since the
// last time sets the count back before the failures after it are added; without one they are added to what is stored.
// News of an address that the receiver has no longer are left out.
func (s *healthStore) saveHealth(ctx context.Context, news map[string]health, now time.Time) (
	failing map[string]bool, recovered []string, err error) {
	suppliers, failingAt := slices.Sorted(maps.Keys(news)), strconv.Itoa(dispatch.FailingAt)
	n := len(suppliers)
	shards, failures := make([]int64, n), make([]int64, n)
	successes, failed, errorTexts := make([]*int64, n), make([]*int64, n), make([]string, n)
	addresses, firsts := make([]int64, n), make([]*int64, n)
	for i, id := range suppliers {
		h := news[id]
		shards[i], failures[i], errorTexts[i] = int64(round.ShardOf(id)), int64(h.failures), h.lastError
		successes[i], failed[i], addresses[i] = microsOrNull(h.success), microsOrNull(h.failure), h.address
		firsts[i] = microsOrNull(h.first)
	}
	const added = `CASE WHEN excluded.last_success_at IS NULL THEN r.consecutive_failures ELSE 0 END
		+ excluded.consecutive_failures`
	end := ` ON CONFLICT (supplier_id) DO UPDATE SET consecutive_failures = ` + added + `,
			failing_since = CASE WHEN ` + added + ` >= ` + failingAt + `
				THEN coalesce(CASE WHEN excluded.last_success_at IS NULL THEN r.failing_since END, excluded.last_failure_at) END,
			first_failure_at = coalesce(CASE WHEN excluded.last_success_at IS NULL THEN r.first_failure_at END,
				excluded.first_failure_at),
			catch_up_to = CASE WHEN r.failing_since IS NOT NULL AND excluded.last_success_at IS NOT NULL
				THEN 0 ELSE r.catch_up_to END,
			last_success_at = coalesce(excluded.last_success_at, r.last_success_at),
			last_error = CASE WHEN excluded.last_failure_at IS NULL THEN r.last_error ELSE excluded.last_error END,
			last_failure_at = coalesce(excluded.last_failure_at, r.last_failure_at), updated_at = excluded.updated_at
		WHERE r.address IN (0, excluded.address)
		RETURNING supplier_id, failing_since IS NOT NULL, coalesce(catch_up_to, 1) = 0`
	type turn struct {
		id                 string
		failing, recovered bool
	}
	failing = map[string]bool{}
	err = s.EachRow(n, `INSERT INTO webhook_receivers AS r (supplier_id, shard, consecutive_failures, failing_since,
			last_success_at, last_failure_at, last_error, updated_at, address, first_failure_at) `,
		`SELECT i, h, f, CASE WHEN f >= `+failingAt+` THEN fa END, ok, fa, e, $7::bigint, a, ff
			FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $8::bigint[],
				$9::bigint[]) AS d(i, h, f, ok, fa, e, a, ff) ORDER BY i`,
		`VALUES ($1, $2, $3, CASE WHEN $3 >= `+failingAt+` THEN $5 END, $4, $5, $6, $7, $8, $9)`, end,
		func(i int) []any {
			return []any{suppliers[i], shards[i], failures[i], successes[i], failed[i], errorTexts[i], now.UnixMicro(),
				addresses[i], firsts[i]}
		},
		func() []any {
			return []any{suppliers, shards, failures, successes, failed, errorTexts, now.UnixMicro(), addresses,
				firsts}
		},
		func(statement string, args []any) error {
			turns, err := database.Query(ctx, s.DB.SQL(ctx), statement, args,
				func(t *turn) []any { return []any{&t.id, &t.failing, &t.recovered} })
			for _, t := range turns {
				if failing[t.id] = t.failing; t.recovered {
					recovered = append(recovered, t.id)
				}
			}
			return err
		})
	return failing, recovered, errs.Doing("store the receivers' state", err)
}

// failingID is a receiver's id when it fails, else an empty one.
const failingID = `CASE WHEN failing_since IS NULL THEN '' ELSE supplier_id END`

func microsOrNull(at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	return new(at.UnixMicro())
}

// lockFailing holds the receivers' rows until the transaction ends and returns which of them fail: of two workers that
// store the same turn the second finds it stored.
func (s *healthStore) lockFailing(ctx context.Context, receivers []string) (map[string]bool, error) {
	var ids []string
	err := s.EachSupplier(receivers, func(suppliers []string) error {
		some, err := database.Column[string](ctx, s.DB.SQL(ctx), `SELECT `+failingID+` FROM webhook_receivers
			WHERE `+s.DB.AnyOf("supplier_id", 1)+s.DB.Of(suppliers, `supplier_id`, `$1`)+`
			ORDER BY supplier_id`+s.DB.RowLock(` FOR NO KEY UPDATE`), s.DB.Values(suppliers))
		ids = append(ids, some...)
		return err
	})
	return database.Set(ids), errs.Doing("lock receivers", err)
}

// pause joins the transaction of ctx and reports whether the receiver was not paused before. A supplier's pause takes
// the service's over, an operator's any. It does nothing if the receiver has another address than the one given; 0:
// any.
func (s *healthStore) pause(ctx context.Context, supplierID, by string, address int64, now time.Time) (paused bool,
	err error) {
	since, err := database.Column[int64](ctx, s.DB.SQL(ctx),
		`INSERT INTO webhook_receivers AS r (supplier_id, shard, paused_by, paused_at, updated_at) VALUES ($1, $2, $3, $4, $4)
		ON CONFLICT (supplier_id) DO UPDATE SET paused_by = excluded.paused_by,
			paused_at = coalesce(r.paused_at, excluded.paused_at), updated_at = excluded.updated_at
		WHERE (r.paused_by = '' OR excluded.paused_by = 'operator'
			OR (r.paused_by = 'service' AND excluded.paused_by = 'supplier'))
			AND (CAST($5 AS bigint) = 0 OR r.address IN (0, CAST($5 AS bigint)))
		RETURNING paused_at`,
		supplierID, round.ShardOf(supplierID), by, now.UnixMicro(), address)
	return len(since) == 1 && since[0] == now.UnixMicro(), errs.Doing("pause the receiver", err)
}

// pauseFailing pauses those of the receivers that have been failing since before the given time, and returns them. One
// that is paused is left as it is, so of two workers that learnt of the same failures one notifies the operator.
func (s *healthStore) pauseFailing(ctx context.Context, suppliers []string, before, now time.Time) ([]string, error) {
	if len(suppliers) == 0 {
		return nil, nil
	}
	paused, err := database.Column[string](ctx, s.DB.SQL(ctx), `
		UPDATE webhook_receivers SET paused_by = 'service', paused_at = $3
		WHERE paused_by = '' AND failing_since <= $2 AND `+s.DB.AnyOf("supplier_id", 1)+` RETURNING supplier_id`,
		s.DB.Values(suppliers), before.UnixMicro(), now.UnixMicro())
	return paused, errs.Doing("pause failing receivers", err)
}

// resume reports false when an operator paused the receiver and by is not one. Earlier failures count no more for
// WEBHOOK_PAUSE_AFTER. One statement asks and changes: an operator's pause that comes at the same time is not undone.
func (s *healthStore) resume(ctx context.Context, supplierID, by string, now time.Time) (resumed bool, err error) {
	left, err := database.Column[string](ctx, s.DB.SQL(ctx), `UPDATE webhook_receivers SET updated_at = CAST($3 AS bigint),
			paused_at = CASE WHEN paused_by = 'operator' AND $2 <> 'operator' THEN paused_at END,
			failing_since = CASE WHEN failing_since IS NULL THEN NULL ELSE CAST($3 AS bigint) END,
			last_error = CASE WHEN last_failure_at IS NULL THEN '' ELSE last_error END,
			paused_by = CASE WHEN paused_by = 'operator' AND $2 <> 'operator' THEN paused_by ELSE '' END
		WHERE supplier_id = $1 RETURNING paused_by`,
		supplierID, by, now.UnixMicro())
	return len(left) == 0 || left[0] == "", errs.Doing("resume the receiver", err)
}

// ReceiverStates returns what is known of the suppliers' receivers; those without a record are not in it.
func (d *Registry) ReceiverStates(ctx context.Context, suppliers []string) (map[string]ReceiverState, error) {
	if len(suppliers) == 0 {
		return map[string]ReceiverState{}, nil
	}
	return d.health.receiverStates(ctx, `webhook_receivers WHERE `+d.health.DB.AnyOf("supplier_id", 1),
		d.health.DB.Values(suppliers))
}

// ill are the receivers that fail or are paused, by an index that has no others: those that package figures counts.
const ill = `(SELECT * FROM webhook_receivers
		WHERE failing_since IS NOT NULL OR paused_by <> '' ORDER BY supplier_id LIMIT 300000) AS r
	JOIN suppliers AS s ON s.id = supplier_id WHERE s.active AND s.webhook_url <> ''`

// IllStates returns the states of the receivers that fail or are paused, of active suppliers with an address.
func (d *Registry) IllStates(ctx context.Context) (map[string]ReceiverState, error) {
	return d.health.receiverStates(ctx, ill)
}

func (s *healthStore) receiverStates(ctx context.Context, from string, args ...any) (map[string]ReceiverState, error) {
	type row struct {
		ReceiverState
		supplierID                                string
		pausedAt, failingSince, success, lastFail *int64
	}
	rows, err := database.Query(ctx, s.DB.ReaderSQL(ctx), `SELECT supplier_id, consecutive_failures, first_failure_at,
			last_success_at, last_failure_at, last_error, paused_by, paused_at
		FROM `+from, args, func(r *row) []any {
		return []any{&r.supplierID, &r.Failures, &r.failingSince, &r.success, &r.lastFail, &r.LastError, &r.PausedBy,
			&r.pausedAt}
	})
	states := make(map[string]ReceiverState, len(rows))
	for _, r := range rows {
		r.PausedAt, r.FailingSince = database.TimeOrNil(r.pausedAt), database.TimeOrNil(r.failingSince)
		r.LastSuccess, r.LastFailure = database.TimeOrNil(r.success), database.TimeOrNil(r.lastFail)
		states[r.supplierID] = r.shown()
	}
	return states, errs.Doing("read the receivers' states", err)
}

// lockTests makes other test calls of the supplier wait for this transaction and returns when the latest were made. The
// row comes first, so that there is one to lock: of two first calls at once the second waits for the first's insertion.
func (s *healthStore) lockTests(ctx context.Context, supplierID string) (recent []int64, err error) {
	var text string
	_, err = database.Exec(ctx, s.DB.SQL(ctx), `INSERT INTO webhook_tests (supplier_id, recent) VALUES ($1, '[]')
		ON CONFLICT (supplier_id) DO NOTHING`, supplierID)
	if err == nil {
		_, err = database.One(ctx, s.DB.SQL(ctx), `SELECT recent FROM webhook_tests WHERE supplier_id = $1`+
			s.DB.RowLock(` FOR UPDATE`), []any{supplierID}, &text)
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &recent)
	}
	return recent, errs.Doing("count test calls", err)
}

// saveTests stores when the latest test calls were made, of the locked row.
func (s *healthStore) saveTests(ctx context.Context, supplierID string, recent []int64) error {
	text, _ := json.Marshal(recent) // of numbers: it never fails
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_tests SET recent = $1 WHERE supplier_id = $2`,
		string(text), supplierID)
	return errs.Doing("count test calls", err)
}
