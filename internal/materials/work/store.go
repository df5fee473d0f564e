package work

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// store reads and writes what package materials keeps: the tickets of requests.
type store struct{ db *database.DB }

// due reads the requests of those rounds that still wait for their estimation, with bodies of maxBytes at most; rest
// are those with larger bodies than their share. Bodies that cannot be decoded come with err set.
func (s *store) due(ctx context.Context, rounds []round.Round, maxBytes int) (
	requests []*pending, rest []round.Round, err error) {
	type dueRow struct {
		round.Round
		traceID     string
		traceParent *string // null: it is not traced
		tries       int64
		body        []byte // nil: it is larger than its share
	}
	rows, err := materials.QueryRounds(ctx, s.db, s.db.ReaderSQL(ctx), rounds,
		`supplier_id, id, uid, round, trace_id, trace_parent, body, status, tries`,
		fmt.Sprintf(`SELECT r.supplier_id, r.id, r.uid, r.round, r.trace_id, r.trace_parent, r.tries,
				CASE WHEN %s <= %d THEN r.body END
			FROM %%s WHERE r.status = 'enqueued' AND r.uid = k.uid AND r.round = k.number`, materials.BodySize,
			share(maxBytes, len(rounds))),
		func(r *dueRow) []any {
			return []any{&r.SupplierID, &r.RequestID, &r.UID, &r.Number, &r.traceID, &r.traceParent, &r.tries, &r.body}
		})
	if err != nil {
		return nil, nil, fmt.Errorf("read requests to estimate: %w", err)
	}
	for _, row := range rows {
		if row.body == nil {
			rest = append(rest, row.Round)
			continue
		}
		request, err := materials.DecodeRequest(row.body)
		if err != nil {
			request, err = materials.Request{}, invalid(err)
		}
		request.SupplierID, request.ID, request.TraceID = row.SupplierID, row.RequestID, row.traceID
		if row.traceParent != nil {
			request.TraceParent = *row.traceParent
		}
		requests = append(requests, &pending{Request: request, Round: row.Round, tries: row.tries, err: err})
	}
	if len(requests) > 0 || len(rest) == 0 {
		return requests, rest, nil
	}
	half := len(rest) / 2 // each is larger than the share of one of so many
	requests, larger, err := s.due(ctx, rest[half:], maxBytes)
	return requests, append(larger, rest[:half]...), err
}

// share returns how large each of n bodies may be: one of few sizes, as each is a statement of its own. A single one
// may have any.
func share(maxBytes, n int) int {
	if n == 1 {
		return math.MaxInt32
	}
	return maxBytes >> bits.Len(uint(n-1))
}

// mustStillExist fails unless the requests of all rounds are still there. The caller's transaction has stored the
// rounds' events: until it ends no other worker finishes one of them, and so retention deletes none.
func (s *store) mustStillExist(ctx context.Context, rounds []round.Round) error {
	there, err := materials.QueryRounds(ctx, s.db, s.db.SQL(ctx), rounds, `supplier_id, id, uid`,
		`SELECT r.uid FROM %s WHERE r.uid = k.uid`, func(uid *int64) []any { return []any{uid} })
	if err != nil {
		return fmt.Errorf("look whether requests are still there: %w", err)
	}
	if len(there) < len(rounds) {
		return errs.NewUnavailable("Requests were deleted while they were estimated.", time.Second, nil)
	}
	return nil
}

// clearTickets records of rounds whose events were stored before that there is nothing left to queue: another worker
// had the same work and has committed it. Those that this worker stores keep their tickets until the estimates arrive.
func (s *store) clearTickets(ctx context.Context, rounds []round.Round) error {
	for _, r := range slices.SortedFunc(slices.Values(rounds), round.Round.Compare) {
		_, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE material_requests SET ticket = NULL, retry_at = NULL
			WHERE `+materials.OfRound, materials.RoundArgs(r)...)
		if err != nil {
			return fmt.Errorf("record dispatched requests: %w", err)
		}
	}
	return nil
}

// tryAgain has the round queued again at the given time.
func (s *store) tryAgain(ctx context.Context, r round.Round, tries int64, at, now time.Time) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE material_requests SET ticket = NULL, retry_at = $5, tries = $6,
		updated_at = $7 WHERE `+materials.OfRound+` AND status = 'enqueued'`,
		materials.RoundArgs(r, at.UnixMicro(), tries, now.UnixMicro())...)
	if err != nil {
		return fmt.Errorf("put the estimation off: %w", err)
	}
	return nil
}

// ticketRow is work that has a new ticket.
type ticketRow struct {
	round.Round
	ticket int64
}

// places returns where database.Query reads work with its ticket to.
func (r *ticketRow) places() []any {
	return []any{&r.SupplierID, &r.RequestID, &r.UID, &r.Number, &r.ticket}
}

// requeue assigns a new ticket to requests whose ticket is below the given one, the lowest first, or that are due to be
// tried again, and returns them.
func (s *store) requeue(ctx context.Context, below int64, now time.Time, limit int) (
	rows []materials.Queued, err error) {
	for _, due := range []struct {
		column string
		bound  int64
	}{{"ticket", below}, {"retry_at", now.UnixMicro()}} {
		found, err := s.requeueBy(ctx, due.column, due.bound, limit-len(rows))
		if err != nil {
			return nil, fmt.Errorf("queue requests again: %w", err)
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

// firstWaiting returns the work that comes first, by a ticket or because it is to be tried again by now.
func (s *store) firstWaiting(ctx context.Context, now time.Time) (first headOfWork, err error) {
	for column, found := range map[string]*int64{"ticket": &first.ticket, "retry_at": &first.retryAt} {
		_, err := database.One(ctx, s.db.ReaderSQL(ctx), `SELECT `+column+` FROM material_requests
			WHERE `+column+` IS NOT NULL ORDER BY `+column+` LIMIT 1`, nil, found)
		if err != nil {
			return first, fmt.Errorf("look for work that waits: %w", err)
		}
	}
	if first.retryAt > now.UnixMicro() {
		first.retryAt = 0
	}
	return first, nil
}

// requeueBy is requeue by one of the two indexed columns. On one PostgreSQL, all rows are chosen, locked and numbered
// by one statement, and rows that another process has locked are left to it. Elsewhere the rows are chosen without
// locks, and each is taken if it is still to be: SQLite has one writer, and of several servers none can lock with the
// others.
func (s *store) requeueBy(ctx context.Context, column string, bound int64, limit int) ([]materials.Queued, error) {
	if limit <= 0 {
		return nil, nil
	}
	const returned = ` RETURNING supplier_id, id, uid, round, ticket`
	chosenBy := ` FROM material_requests WHERE ` + column + ` < $1 ORDER BY ` + column + ` LIMIT $2`
	if s.db.Engine() == database.Postgres && !s.db.Spread() {
		rows, err := database.Query(ctx, s.db.SQL(ctx), `UPDATE material_requests
			SET ticket = nextval('request_numbers'), retry_at = NULL
			WHERE uid > 0 AND `+s.db.Chosen("uid", `SELECT uid`+chosenBy+` FOR UPDATE SKIP LOCKED`)+returned,
			[]any{bound, limit}, (*ticketRow).places)
		return queued(rows), err
	}
	chosen, err := database.Query(ctx, s.db.SQL(ctx), `SELECT supplier_id, id`+chosenBy, []any{bound, limit},
		func(r *ticketRow) []any { return []any{&r.SupplierID, &r.RequestID} })
	if err != nil {
		return nil, err
	}
	var taken []ticketRow
	for _, row := range chosen {
		ticket, err := s.db.Numbers(ctx, 1)
		if err != nil {
			return nil, err
		}
		rows, err := database.Query(ctx, s.db.SQL(ctx), `UPDATE material_requests SET ticket = $1, retry_at = NULL
			WHERE supplier_id = $2 AND id = $3 AND `+column+` < $4`+returned,
			[]any{ticket, row.SupplierID, row.RequestID, bound}, (*ticketRow).places)
		if err != nil {
			return nil, err
		}
		taken = append(taken, rows...)
	}
	return queued(taken), nil
}

// queued returns rows as they are published.
func queued(rows []ticketRow) []materials.Queued {
	list := make([]materials.Queued, len(rows))
	for i, row := range rows {
		list[i] = materials.Queued{Round: row.Round, Ticket: row.ticket}
	}
	return list
}
