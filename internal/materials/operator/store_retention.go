package operator

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/round"
)

// isOld chooses the requests that are deleted, by what was made before $2 and changed before $3.
const isOld = `status <> 'enqueued' AND created_at < $2 AND updated_at < $3`

// old looks at the next requests from a uid on, in the order in which they were accepted. It returns those that are to
// be deleted, one or as many as have pruneRounds together, the uid that it would go on from, and whether there may be
// more.
func (s *store) old(ctx context.Context, from int64, what pruning, limit int) (
	old []round.Round, next int64, more bool, err error) {
	type candidate struct {
		round.Round
		madeBefore, old bool
	}
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT supplier_id, id, uid, round, created_at < $2, `+isOld+`
		FROM material_requests WHERE uid > 0 AND uid >= $1 AND uid < $4 ORDER BY uid LIMIT $5`,
		[]any{from, what.made.UnixMicro(), what.changed.UnixMicro(), what.of.End, limit}, func(c *candidate) []any {
			return []any{&c.SupplierID, &c.RequestID, &c.UID, &c.Number, &c.madeBefore, &c.old}
		})
	if err != nil || len(rows) == 0 {
		return nil, from, false, err
	}
	left := int64(pruneRounds)
	for _, row := range rows {
		more = more || row.madeBefore
		if row.old {
			if left -= row.Number; left < 0 && len(old) > 0 {
				return old, row.UID, true, nil
			}
			old = append(old, row.Round)
		}
	}
	return old, rows[len(rows)-1].UID + 1, more && len(rows) == limit, nil
}

// lockOld holds those of the requests that are still to be deleted until the transaction ends, and returns them:
// against a selection, a re-estimate, another replica.
func (s *store) lockOld(ctx context.Context, rounds []round.Round, what pruning) ([]round.Round, error) {
	uids, suppliers, found := make([]int64, len(rounds)), make([]string, len(rounds)), map[int64]round.Round{}
	for i, r := range rounds {
		uids[i], suppliers[i], found[r.UID] = r.UID, r.SupplierID, r
	}
	args := []any{s.db.Values(uids), what.made.UnixMicro(), what.changed.UnixMicro()}
	ofOne := s.db.Of(suppliers, `supplier_id`, `$4`)
	if ofOne != "" {
		args = append(args, suppliers)
	}
	locked, err := database.Column[int64](ctx, s.db.SQL(ctx), `SELECT uid FROM material_requests
		WHERE uid > 0 AND `+s.db.AnyOf("uid", 1)+` AND `+isOld+ofOne+` ORDER BY supplier_id, id`+s.db.RowLock(` FOR UPDATE`),
		args...)
	return lists.Of(locked, func(uid int64) round.Round { return found[uid] }), err
}

// holds reports whether a request of the partition is enqueued or was changed since then.
func (s *store) holds(ctx context.Context, p round.Partition, since time.Time) (is bool, err error) {
	// without a statement timeout, if ctx says so
	err = s.db.InTx(ctx, "look for old work", func(ctx context.Context) error {
		_, err := database.One(ctx, s.db.SQL(ctx), `SELECT EXISTS (SELECT 1 FROM material_requests
			WHERE uid > 0 AND uid >= $1 AND uid < $2 AND (updated_at >= $3 OR status = 'enqueued'))`,
			[]any{p.First, p.End, since.UnixMicro()}, &is)
		return err
	})
	return is, err
}

// prune deletes the requests' rounds up to a number. A request goes with its last one; it returns how many did.
func (s *store) prune(ctx context.Context, requests []round.Round, upTo int64) (deleted int64, err error) {
	uids := lists.Of(requests, func(r round.Round) int64 { return r.UID })
	for _, rounds := range []string{"material_rounds WHERE number", "material_requests WHERE round"} {
		deleted, err = database.Exec(ctx, s.db.SQL(ctx), `DELETE FROM `+rounds+` <= $2 AND uid > 0 AND `+s.db.AnyOf("uid", 1),
			s.db.Values(uids), upTo)
		if err != nil {
			return 0, err
		}
	}
	return deleted, nil
}
