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

// store reads and writes what package materials keeps: when the estimation of a request is due.
type store struct{ db *database.DB }

// read reads the requests of those rounds that still wait for their estimation, with bodies of maxBytes at most; rest
// are those with larger bodies than their share. Bodies that cannot be decoded come with err set.
func (s *store) read(ctx context.Context, rounds []round.Round, maxBytes int) (
	requests []*pending, rest []round.Round, err error) {
	type dueRow struct {
		round.Round
		traceID, traceParent string
		tries                int64
		body                 []byte // nil: it is larger than its share
	}
	rows, err := materials.QueryRounds(ctx, s.db, s.db.ReaderSQL(ctx), rounds,
		`supplier_id, id, uid, round, trace_id, trace_parent, body, status, due_at, tries`,
		fmt.Sprintf(`SELECT r.supplier_id, r.id, r.uid, r.round, r.trace_id, coalesce(r.trace_parent, ''), r.tries,
				CASE WHEN %s <= %d THEN r.body END
			FROM %%s WHERE r.status = 'enqueued' AND r.due_at IS NOT NULL AND r.uid = k.uid
				AND r.round = k.number`, materials.BodySize,
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
			request, err = materials.Request{}, errs.Wrap(errs.Invalid, "read the stored request", err)
		}
		request.SupplierID, request.ID, request.TraceID = row.SupplierID, row.RequestID, row.traceID
		request.TraceParent = row.traceParent
		requests = append(requests, &pending{Request: request, Round: row.Round, tries: row.tries,
			size: int64(len(row.body)), err: err})
	}
	if len(requests) > 0 || len(rest) == 0 {
		return requests, rest, nil
	}
	half := len(rest) / 2 // each is larger than the share of one of so many
	requests, larger, err := s.read(ctx, rest[half:], maxBytes)
	return requests, append(larger, rest[:half]...), err
}

// share returns how large each of n bodies may be, rounded to a power of two, so that few statements are prepared; a
// single body has no limit.
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
	if err == nil && len(there) < len(rounds) {
		return errs.NewUnavailable("Requests were deleted while they were estimated.", time.Second, nil)
	}
	return errs.Doing("look whether requests are still there", err)
}

// clear records of rounds whose events were stored before that they are due no longer: another worker had the same and
// has committed it. Those that this worker stores stay due until the estimates arrive.
func (s *store) clear(ctx context.Context, rounds []round.Round) error {
	for _, r := range slices.SortedFunc(slices.Values(rounds), round.Round.Compare) {
		_, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE material_requests SET due_at = NULL WHERE `+materials.OfRound,
			materials.RoundArgs(r)...)
		if err != nil {
			return fmt.Errorf("record estimated requests: %w", err)
		}
	}
	return nil
}

// tryAgain makes the round due again at the given time.
func (s *store) tryAgain(ctx context.Context, r round.Round, tries int64, at, now time.Time) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE material_requests SET due_at = $5, tries = $6, updated_at = $7
		WHERE `+materials.OfRound+` AND status = 'enqueued'`,
		materials.RoundArgs(r, at.UnixMicro(), tries, now.UnixMicro())...)
	return errs.Doing("put the estimation off", err)
}
