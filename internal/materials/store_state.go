package materials

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Statements about one round of one request: a request that was deleted and whose id is used again has another uid, a
// request that was estimated again another number. Both are in every condition here.

// OfRound is the condition that a statement is about this round of this request and no other; RoundArgs are its $1 to
// $4, and more arguments behind them.
const OfRound = `supplier_id = $1 AND id = $2 AND uid = $3 AND round = $4`

// RoundArgs returns the arguments of a statement with OfRound.
func RoundArgs(r round.Round, more ...any) []any {
	return append([]any{r.SupplierID, r.RequestID, r.UID, r.Number}, more...)
}

// fail moves the round's request from enqueued to failed and returns its trace id; moved is false when it was not
// enqueued in this round. It is due no longer, so that neither a message nor a look has it estimated.
func (s *store) fail(ctx context.Context, r round.Round, reason string, now time.Time) (
	traceID string, moved bool, err error) {
	moved, err = database.One(ctx, s.db.SQL(ctx), `UPDATE material_requests SET status = 'failed', due_at = NULL,
		failure = $5, updated_at = $6
		WHERE `+OfRound+` AND status = 'enqueued' RETURNING trace_id`, RoundArgs(r, reason, now.UnixMicro()), &traceID)
	return traceID, moved, errs.Doing("move material request", err)
}

// redelivered moves the rounds' requests from failed back to enqueued and returns them: their events are on their way
// again. They are locked first, all in the one order: the UPDATE alone would lock them as its plan finds them.
func (s *store) redelivered(ctx context.Context, rounds []round.Round, now time.Time) ([]requestRow, error) {
	keys := lists.Of(rounds, func(r round.Round) requestKey { return requestKey{r.SupplierID, r.RequestID} })
	if err := s.lockAll(ctx, keys); err != nil {
		return nil, err
	}
	moved, err := QueryRounds(ctx, s.db, s.db.SQL(ctx), rounds, `supplier_id, id, uid, round`, fmt.Sprintf(`
		UPDATE material_requests SET status = 'enqueued', failure = '', updated_at = %d
		FROM (SELECT r.supplier_id, r.id FROM %%s WHERE r.uid = k.uid AND r.round = k.number) AS asked
		WHERE material_requests.supplier_id = asked.supplier_id AND material_requests.id = asked.id AND status = 'failed'
		RETURNING material_requests.supplier_id, material_requests.id, uid, round, trace_id`, now.UnixMicro()),
		func(r *requestRow) []any { return []any{&r.SupplierID, &r.ID, &r.UID, &r.Round, &r.TraceID} })
	return moved, errs.Doing("move material requests", err)
}

// traced names the call that a round is worked on for: its X-Request-Id, empty for that of the round before, and its
// span.
type traced struct{ id, parent string }

// nextRound begins the next round of a request that is in one of the statuses, and records how the one before ended.
// moved is false in any other status. The row is locked first, so that of two calls at once one begins a round. It is
// due from now on, so that its owner finds it if publishing is lost.
func (s *store) nextRound(ctx context.Context, key requestKey, trace traced, now time.Time, from ...Status) (
	next round.Round, moved bool, err error) {
	statuses := lists.Of(from, func(status Status) string { return string(status) })
	err = s.db.InTx(ctx, "begin the next round", func(ctx context.Context) error {
		if err := s.lock(ctx, key); err != nil {
			return err
		}
		which := `supplier_id = $1 AND id = $2 AND ` + s.db.AnyOf("status", 3) //nolint:mnd // the third of both
		_, err := database.Exec(ctx, s.db.SQL(ctx), `INSERT INTO material_rounds
				(supplier_id, request_id, uid, number, status, failure, created_at)
			SELECT supplier_id, id, uid, round, status, failure, coalesce(round_at, created_at) FROM material_requests
			WHERE `+which, key.SupplierID, key.ID, s.db.Values(statuses))
		if err != nil {
			return fmt.Errorf("record the round before: %w", err)
		}
		next = round.Round{SupplierID: key.SupplierID, RequestID: key.ID}
		moved, err = database.One(ctx, s.db.SQL(ctx), `UPDATE material_requests SET status = 'enqueued', round = round + 1,
			round_at = $4, due_at = $4, tries = 0, posted_at = NULL, failure = '', updated_at = $4,
			trace_id = CASE WHEN $5 = '' THEN trace_id ELSE $5 END,
			trace_parent = CASE WHEN $5 = '' THEN trace_parent ELSE $6 END
			WHERE `+which+` RETURNING uid, round`,
			[]any{key.SupplierID, key.ID, s.db.Values(statuses), now.UnixMicro(), trace.id, trace.parent},
			&next.UID, &next.Number)
		return err
	})
	return next, moved && err == nil, errs.Doing("begin the next round", err)
}

// lockAll holds the requests until the transaction ends, in the one order in which all batches lock. Their deliveries
// are locked before, as deliveries.lockByID says.
func (s *store) lockAll(ctx context.Context, keys []requestKey) error {
	_, err := queryRequests(ctx, s, s.db.SQL(ctx), keys, `supplier_id, id`, true,
		`SELECT r.supplier_id, r.id FROM %s`, (*requestKey).place)
	return err
}

// roundsTable returns a table r of the columns of those requests that are stored, joined to the rounds k that were
// asked for, and its parameters. The condition that r is in that round is the caller's. On PostgreSQL each is looked up
// by its key (OFFSET 0 keeps the planner from anything else, whatever it believes of the tables), and with lock it is
// held until the transaction ends: in the one order in which all batches lock.
func roundsTable(db *database.DB, rounds []round.Round, columns string, lock bool) (table string, args []any) {
	if db.Engine() == database.SQLite {
		return `(SELECT value->>'SupplierID' AS of, value->>'RequestID' AS request, value->>'UID' AS uid,
				value->>'Number' AS number FROM json_each($1)) AS k
			JOIN (SELECT ` + columns + ` FROM material_requests) AS r ON r.supplier_id = k.of AND r.id = k.request`,
			[]any{db.Values(rounds)}
	}
	end := ` OFFSET 0) r`
	if lock {
		rounds, end = slices.SortedFunc(slices.Values(rounds), round.Round.Compare), ` OFFSET 0 FOR UPDATE) r`
	}
	n := len(rounds)
	suppliers, ids, uids, numbers := make([]string, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i, r := range rounds {
		suppliers[i], ids[i], uids[i], numbers[i] = r.SupplierID, r.RequestID, r.UID, r.Number
	}
	return `unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) AS k(supplier_id, request_id, uid, number)
		CROSS JOIN LATERAL (SELECT ` + columns + ` FROM material_requests m
			WHERE m.supplier_id = k.supplier_id AND m.id = k.request_id` + db.Of(suppliers, `m.supplier_id`, `$1`) + end,
		[]any{suppliers, ids, uids, numbers}
}

// QueryRounds reads the rows of a statement whose verb is such a table.
func QueryRounds[T any](ctx context.Context, db *database.DB, pool database.Pool, rounds []round.Round, columns,
	statement string, places func(*T) []any) (rows []T, err error) {
	return queryRounds(ctx, db, pool, rounds, columns, false, statement, places)
}

func queryRounds[T any](ctx context.Context, db *database.DB, pool database.Pool, rounds []round.Round, columns string,
	lock bool, statement string, places func(*T) []any) (rows []T, err error) {
	supplier := func(r round.Round) string { return r.SupplierID }
	err = database.BySupplier(db, rounds, supplier, func(rounds []round.Round) error {
		table, args := roundsTable(db, rounds, columns, lock)
		some, err := database.Query(ctx, pool, fmt.Sprintf(statement, table), args, places)
		rows = append(rows, some...)
		return err
	})
	return rows, err
}
