package database

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// Miscount is a series whose kept total is not how many rows there are.
type Miscount struct {
	List string
	Series
	Kept, There int64
}

// comparedBlocks and comparedOwners are how many one statement compares: some 100,000 rows at most, once the blocks are
// split.
const (
	comparedBlocks = 50
	comparedOwners = 100
)

// nextBlocks are the blocks b behind one. The first of a series has all rows before it as well. Their bounds are found
// once, not for each row that is compared with them.
const nextBlocks = `WITH taken AS (SELECT owner, status, start, n FROM list_counts
		WHERE list = $1 AND (owner, status, start) > ($2, $3, $4) ORDER BY owner, status, start LIMIT $5),
	b AS MATERIALIZED (SELECT owner%[1]s AS owner, status%[1]s AS status, start AS at, n,
			CASE WHEN EXISTS (SELECT 1 FROM list_counts e WHERE e.list = $1 AND e.owner = t.owner AND e.status = t.status
				AND e.start < t.start) THEN start ELSE 0 END AS start,
			coalesce((SELECT min(e.start) FROM list_counts e WHERE e.list = $1 AND e.owner = t.owner AND e.status = t.status
				AND e.start > t.start), 9223372036854775807) AS ends
		FROM taken t)`

// nextOwners are the series of an owner and of the next ones that have rows: what has no block is one that counts none,
// and the others are compared by their blocks.
const nextOwners = `WITH RECURSIVE o(owner, at) AS (SELECT CAST($2 AS text), CAST(0 AS bigint)
		UNION ALL SELECT (%[1]s), o.at + 1 FROM o WHERE o.owner IS NOT NULL AND o.at < $3),
	b AS MATERIALIZED (SELECT o.owner, s.status, o.at, 0 AS n, 0 AS start,
		CASE WHEN EXISTS (SELECT 1 FROM list_counts e
			WHERE e.list = $1 AND e.owner = o.owner AND e.status = s.status) THEN 0 ELSE 9223372036854775807 END AS ends
		FROM o CROSS JOIN (SELECT '' AS status%[2]s) AS s WHERE o.owner IS NOT NULL)`

// compared adds to the blocks b what is noted of their time, and counts their rows, as one moment sees both. What is
// noted is gone through once and added up by time, as it may be millions of rows where no api folds them.
const compared = `, c AS MATERIALIZED (SELECT owner, was, became, at, sum(n) AS n FROM list_changes
		WHERE list = $1 AND owner IN (SELECT owner FROM b) AND at >= (SELECT min(start) FROM b)
			AND at < (SELECT max(ends) FROM b) GROUP BY owner, was, became, at)
	SELECT b.owner, b.status, b.at, b.n + CAST(coalesce((SELECT sum(
			c.n * CASE b.status WHEN '' THEN -1 ELSE 1 END * CASE b.status WHEN c.became THEN 1 WHEN c.was THEN -1 ELSE 0 END)
			FROM c WHERE c.owner = b.owner AND c.at >= b.start AND c.at < b.ends), 0) AS bigint),
		CASE b.status WHEN '' THEN (SELECT count(*) FROM %[2]s AND %[1]s >= b.start AND %[1]s < b.ends)
			ELSE (SELECT count(*) FROM %[3]s AND %[1]s >= b.start AND %[1]s < b.ends) END
	FROM b`

// comparison is what is kept of a block and what there is.
type comparison struct {
	Series
	at, kept, there int64
}

func (c *comparison) places() []any { return []any{&c.Owner, &c.Status, &c.at, &c.kept, &c.there} }

func (c comparison) compare(other comparison) int {
	return cmp.Or(cmp.Compare(c.Owner, other.Owner), cmp.Compare(c.Status, other.Status), cmp.Compare(c.at, other.at))
}

// miscounts sums comparisons up by their series, which come one after the other.
type miscounts struct {
	list    string
	current Miscount
	wrong   []Miscount
	rows    int64 // that were counted
	done    func(int64)
}

func (m *miscounts) add(blocks ...comparison) {
	for _, b := range blocks {
		if b.Series != m.current.Series {
			m.end()
			m.current = Miscount{List: m.list, Series: b.Series}
		}
		m.current.Kept += b.kept
		m.current.There += b.there
		m.rows += b.there
	}
	m.done(m.rows)
}

func (m *miscounts) end() {
	if m.current.Kept != m.current.There {
		m.wrong = append(m.wrong, m.current)
	}
	m.current = Miscount{}
}

// Miscounts returns the series of a list whose totals are wrong: by short statements, each of which compares some
// blocks with their rows. A block that is split or joined meanwhile is right before and after. It changes nothing and
// may run at any time. done is called with how many rows were counted.
func (d *DB) Miscounts(ctx context.Context, l List, done func(int64)) ([]Miscount, error) {
	if d.Spread() { // none is kept
		return nil, nil
	}
	m := &miscounts{list: l.Name, done: done}
	err := d.compareOwners(ctx, l, m)
	if err == nil {
		err = d.compareBlocks(ctx, l, m)
	}
	if err != nil {
		return nil, fmt.Errorf("check the totals of %s: %w", l.Name, err)
	}
	return m.wrong, nil
}

// compareOwners compares the series that have rows and no blocks, such as those of the last second.
func (d *DB) compareOwners(ctx context.Context, l List, m *miscounts) error {
	statuses := ""
	for _, status := range l.Statuses {
		statuses += ` UNION ALL SELECT '` + status + `'`
	}
	for after, first := "", true; ; first = false {
		series, err := d.compare(ctx, fmt.Sprintf(nextOwners, l.NextOwner, statuses), l, l.Name, after, comparedOwners)
		if err != nil {
			return err
		}
		slices.SortFunc(series, func(a, b comparison) int { return cmp.Or(cmp.Compare(a.at, b.at), a.compare(b)) })
		for _, s := range series {
			if s.at > 0 || first {
				m.add(s)
			}
		}
		m.end()
		last := series[len(series)-1]
		if after = last.Owner; last.at < comparedOwners {
			return nil
		}
	}
}

func (d *DB) compareBlocks(ctx context.Context, l List, m *miscounts) error {
	statement := fmt.Sprintf(nextBlocks, d.plain())
	for last := (comparison{at: -1}); ; {
		blocks, err := d.compare(ctx, statement, l, l.Name, last.Owner, last.Status, last.at, comparedBlocks)
		if err != nil {
			return err
		}
		if len(blocks) == 0 {
			m.end()
			return nil
		}
		slices.SortFunc(blocks, comparison.compare)
		m.add(blocks...)
		last = blocks[len(blocks)-1]
	}
}

func (d *DB) compare(ctx context.Context, blocks string, l List, args ...any) ([]comparison, error) {
	return Query(ctx, d.ReaderSQL(ctx), blocks+fmt.Sprintf(compared, l.At, l.OfAny, l.OfOne), args,
		(*comparison).places)
}

// plain returns what gives texts of the counts, which are in the order of their bytes, the order that the tables' own
// and their indexes have.
func (d *DB) plain() string {
	if d.engine == Postgres {
		return ` COLLATE "default"`
	}
	return ""
}

// Recount counts a series anew while its rows go on changing; done is false while another process adds to the counts.
func (d *DB) Recount(ctx context.Context, l List, s Series) (done bool, err error) {
	err = d.InTx(ForMaintenance(ctx), "recount a list", func(ctx context.Context) error {
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
