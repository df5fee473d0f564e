package database

import (
	"context"
	"fmt"
	"math"
)

// Miscount is a series whose kept total is not how many rows there are.
type Miscount struct {
	List string
	Series
	Kept, There int64
}

func (m *Miscount) places() []any { return []any{&m.Owner, &m.Status, &m.Kept, &m.There} }

// miscounts compares, as one moment saw them, the totals of all series of a list with its rows.
const miscounts = `SELECT owner, status, CAST(sum(kept) AS bigint), CAST(sum(there) AS bigint) FROM (
		SELECT owner, status, n AS kept, 0 AS there FROM list_counts WHERE list = $1
		UNION ALL SELECT owner, became, n, 0 FROM list_changes WHERE list = $1 AND became <> ''
		UNION ALL SELECT owner, was, -n, 0 FROM list_changes WHERE list = $1 AND was <> ''
		UNION ALL SELECT owner, '', n, 0 FROM list_changes WHERE list = $1 AND was = ''
		UNION ALL SELECT owner, '', -n, 0 FROM list_changes WHERE list = $1 AND became = ''
		UNION ALL SELECT owner, status, 0, n FROM (%[1]s) AS each_status
		UNION ALL SELECT owner, '', 0, n FROM (%[1]s) AS any_status) AS both_sides
	WHERE owner <> 'own' GROUP BY owner, status HAVING sum(kept) <> sum(there) ORDER BY owner, status`

// Miscounts returns the series of a list whose totals are wrong. It changes nothing and may run at any time.
func (d *DB) Miscounts(ctx context.Context, l List) (wrong []Miscount, err error) {
	if d.Spread() { // none is kept
		return nil, nil
	}
	err = d.InTx(ForMaintenance(ctx), func(ctx context.Context) (err error) {
		wrong, err = Query(ctx, d.SQL(ctx), fmt.Sprintf(miscounts, l.Counted), []any{l.Name}, (*Miscount).places)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check the totals of %s: %w", l.Name, err)
	}
	for i := range wrong {
		wrong[i].List = l.Name
	}
	return wrong, nil
}

// Recount counts a series anew while its rows go on changing; done is false while another process adds to the counts.
func (d *DB) Recount(ctx context.Context, l List, s Series) (done bool, err error) {
	err = d.InTx(ForMaintenance(ctx), func(ctx context.Context) error {
		if done, err = d.TryLock(ctx, CountsLock); err != nil || !done {
			return err
		}
		err = d.From(ctx).Exec(`DELETE FROM list_counts WHERE list = ? AND owner = ? AND status = ?`, l.Name, s.Owner,
			s.Status).Error
		if err != nil {
			return err
		}
		parts, err := d.parts(ctx, l, change{l.Name, s, 0, 0}, math.MaxInt64)
		if err != nil {
			return err
		}
		return d.insertBlocks(ctx, parts)
	})
	if err != nil {
		return false, fmt.Errorf("count %s anew: %w", l.Name, err)
	}
	return done, nil
}
