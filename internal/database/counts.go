package database

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// CountUnit takes the last bits off a time in microseconds: changes are noted by quarters of a second.
const CountUnit = `-262144`

// CountsLock is the lock of who changes the blocks.
const CountsLock = "counts"

const (
	countUnit  = 1 << 18 // CountUnit's microseconds
	blockRows  = 1000    // of a block that was split
	mostRows   = 2 * blockRows
	foldedRows = 20_000 // changes that one transaction adds to the blocks
)

// List is a list whose rows are counted, newest first by a time that they keep.
type List struct {
	Name string
	At   string                                 // the time's column
	Rows func(Series) (from string, args []any) // the series' rows, as FROM takes them with a WHERE that is not over yet

	// For the check of the counts: the statuses there are, a SELECT of the next owner behind o.owner that has rows, and
	// the rows of the series b of no certain status and of one, as Rows has them.
	Statuses                []string
	NextOwner, OfAny, OfOne string
}

// Series is what is counted of a list: the rows of one owner in one status; an empty status: in any.
type Series struct{ Owner, Status string }

// noted is how many rows a row of list_changes adds to a series: what becomes nothing is gone from all of them.
const noted = `n * CAST(? AS bigint) * CASE ? WHEN became THEN 1 WHEN was THEN -1 ELSE 0 END`

func (s Series) noted() []any {
	if s.Status == "" {
		return []any{-1, ""}
	}
	return []any{1, s.Status}
}

// change is how many rows of a series came or went at a time, or a block.
type change struct {
	list string
	Series
	at, n int64
}

func (c *change) places() []any { return []any{&c.list, &c.Owner, &c.Status, &c.at, &c.n} }

// Fold adds the noted changes to the blocks and splits those that have become too large. One process at a time does; it
// reports whether there may be more.
func (d *DB) Fold(ctx context.Context, lists ...List) (more bool, err error) {
	var any int
	err = d.Reader(ctx).Raw(`SELECT count(*) FROM (SELECT 1 FROM list_changes LIMIT 1) AS c`).Scan(&any).Error
	if err != nil || any == 0 {
		return false, Translate(err)
	}
	err = d.InTx(ctx, "fold list counts", func(ctx context.Context) error {
		held, err := d.TryLock(ctx, CountsLock)
		if err != nil || !held {
			return err
		}
		changes, taken, err := d.takeChanges(ctx)
		if err != nil {
			return err
		}
		more = taken == foldedRows
		blocks, err := d.addChanges(ctx, changes)
		if err != nil {
			return err
		}
		return d.splitBlocks(ctx, blocks, lists)
	})
	if err != nil {
		return false, fmt.Errorf("add changes to the counts: %w", err)
	}
	return more, nil
}

// SplitAll splits the blocks that are too large, as a migration leaves them, each in a transaction of its own.
func (d *DB) SplitAll(ctx context.Context, lists ...List) error {
	blocks, err := Query(ctx, d.SQL(ctx), `SELECT list, owner, status, start, n FROM list_counts WHERE n > $1`,
		[]any{mostRows}, (*change).places)
	for _, b := range blocks {
		if err != nil {
			break
		}
		err = d.InTx(ctx, "split list counts", func(ctx context.Context) error {
			held, err := d.TryLock(ctx, CountsLock)
			if err != nil || !held {
				return err
			}
			return d.splitBlocks(ctx, []change{b}, lists)
		})
	}
	if err != nil {
		return fmt.Errorf("split the counts: %w", err)
	}
	return nil
}

// NotedStatuses selects from rows of list_changes, on PostgreSQL, what status_counts lacks.
func NotedStatuses(changes string) string {
	return `SELECT CASE list WHEN 'requests' THEN 'request' ELSE 'delivery' END AS kind, c.status, c.n
		FROM ` + changes + ` CROSS JOIN LATERAL (VALUES (became, n), (was, -n)) AS c(status, n)
		WHERE NOT counted AND c.status IN ('enqueued', 'failed', 'pending', 'dead')`
}

// takeChanges takes rows of list_changes away and returns what they change, and how many rows they were.
func (d *DB) takeChanges(ctx context.Context) (changes []change, taken int, err error) {
	statement := `DELETE FROM list_changes WHERE (list, owner, was, became, at) IN (
		SELECT list, owner, was, became, at FROM list_changes LIMIT ?) RETURNING list, owner, was, became, at, n, 1`
	if d.engine == Postgres { // most of what is noted at once is of few series and times
		statement = `WITH taken AS (
				DELETE FROM list_changes WHERE ctid = ANY (ARRAY(SELECT ctid FROM list_changes LIMIT $1)) RETURNING *
			), counts AS (
				INSERT INTO status_counts SELECT kind, status, sum(n) FROM (` + NotedStatuses("taken") + `) AS c
					GROUP BY kind, status)
			SELECT list, owner, was, became, at, CAST(sum(n) AS bigint), count(*) FROM taken
				GROUP BY list, owner, was, became, at`
	}
	type row struct {
		change
		became string
		rows   int
	}
	rows, err := Query(ctx, d.SQL(ctx), statement, []any{foldedRows}, func(r *row) []any {
		return []any{&r.list, &r.Owner, &r.Status, &r.became, &r.at, &r.n, &r.rows}
	})
	for _, r := range rows {
		taken += r.rows
		if r.list == "deliveries" && r.Owner == "own" { // they are in no list
			continue
		}
		all := Series{Owner: r.Owner}
		switch {
		case r.Status == "":
			changes = append(changes, change{r.list, all, r.at, r.n})
		case r.became == "":
			changes = append(changes, change{r.list, all, r.at, -r.n})
		}
		if r.Status != "" {
			changes = append(changes, change{r.list, r.Series, r.at, -r.n})
		}
		if r.became != "" {
			changes = append(changes, change{r.list, Series{r.Owner, r.became}, r.at, r.n})
		}
	}
	return changes, taken, err
}

// addChanges returns the blocks that were changed, as they are now.
func (d *DB) addChanges(ctx context.Context, changes []change) ([]change, error) {
	source, args, err := d.changes(changes)
	if err != nil {
		return nil, err
	}
	blocks, err := Query(ctx, d.SQL(ctx), `INSERT INTO list_counts (list, owner, status, start, n)
		SELECT list, owner, status, start, CAST(sum(n) AS bigint) FROM (
			SELECT c.list, c.owner, c.status, c.n, coalesce((SELECT b.start FROM list_counts b
				WHERE b.list = c.list AND b.owner = c.owner AND b.status = c.status AND b.start <= c.at
				ORDER BY b.start DESC LIMIT 1), 0) AS start
			FROM `+source+`) AS placed
		WHERE true GROUP BY list, owner, status, start HAVING sum(n) <> 0
		ON CONFLICT (list, owner, status, start) DO UPDATE SET n = list_counts.n + excluded.n
		RETURNING list, owner, status, start, n`, args, (*change).places)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		if b.n == 0 { // its time belongs to the block before
			if _, err := d.deleteBlock(ctx, b); err != nil {
				return nil, err
			}
		}
	}
	return blocks, nil
}

// changes returns a table c of the changes, and the parameters that it takes.
func (d *DB) changes(changes []change) (table string, args []any, err error) {
	if d.engine == Postgres {
		n := len(changes)
		lists, owners, statuses := make([]string, n), make([]string, n), make([]string, n)
		at, counts := make([]int64, n), make([]int64, n)
		for i, c := range changes {
			lists[i], owners[i], statuses[i], at[i], counts[i] = c.list, c.Owner, c.Status, c.at, c.n
		}
		return `unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS c(list, owner, status, at, n)`,
			[]any{lists, owners, statuses, at, counts}, nil
	}
	rows := make([][]any, len(changes))
	for i, c := range changes {
		rows[i] = []any{c.list, c.Owner, c.Status, c.at, c.n}
	}
	text, err := json.Marshal(rows)
	return `(SELECT value->>0 AS list, value->>1 AS owner, value->>2 AS status, value->>3 AS at, value->>4 AS n
		FROM json_each(?)) AS c`,
		[]any{string(text)}, err
}

// deleteBlock reports whether the block was there.
func (d *DB) deleteBlock(ctx context.Context, b change) (bool, error) {
	deleted := d.From(ctx).Exec(`DELETE FROM list_counts WHERE list = ? AND owner = ? AND status = ? AND start = ?`,
		b.list, b.Owner, b.Status, b.at)
	return deleted.RowsAffected > 0, deleted.Error
}

func (d *DB) splitBlocks(ctx context.Context, blocks []change, lists []List) error {
	for _, b := range blocks {
		if b.n <= mostRows {
			continue
		}
		for _, l := range lists {
			if l.Name != b.list {
				continue
			}
			if err := d.split(ctx, l, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// split counts a block's rows anew, as they were when the noted changes were not yet made, and makes blocks of about
// blockRows of them.
func (d *DB) split(ctx context.Context, l List, b change) error {
	var end int64
	err := d.From(ctx).Raw(`SELECT coalesce(min(start), ?) FROM list_counts WHERE list = ? AND owner = ? AND status = ?
		AND start > ?`,
		int64(math.MaxInt64), b.list, b.Owner, b.Status, b.at).Scan(&end).Error
	if err != nil {
		return err
	}
	if there, err := d.deleteBlock(ctx, b); err != nil || !there {
		return err
	}
	parts, err := d.parts(ctx, l, b, end)
	if err != nil {
		return err
	}
	return d.insertBlocks(ctx, parts)
}

// parts counts the rows of a block's time as blocks of about blockRows, of which the first begins where it does.
func (d *DB) parts(ctx context.Context, l List, b change, end int64) ([]change, error) {
	from, args := l.Rows(b.Series)
	args = append(append(append(args, b.at, end), b.noted()...), l.Name, b.Owner, b.at, end)
	var rows []struct{ At, N int64 }
	err := d.From(ctx).Raw(fmt.Sprintf(`WITH counted AS (
			SELECT at, CAST(sum(n) AS bigint) AS n FROM (
				SELECT %[1]s & -%[2]d AS at, count(*) AS n FROM %[3]s AND %[1]s >= ? AND %[1]s < ? GROUP BY 1
				UNION ALL SELECT at, -`+noted+` FROM list_changes WHERE list = ? AND owner = ? AND at >= ? AND at < ?) AS units
			GROUP BY at HAVING sum(n) <> 0)
		SELECT min(at) AS at, CAST(sum(n) AS bigint) AS n
		FROM (SELECT at, n, CAST(sum(n) OVER (ORDER BY at) - n AS bigint) / %[4]d AS part FROM counted) AS parted
		GROUP BY part ORDER BY 1`, l.At, countUnit, from, blockRows), args...).Scan(&rows).Error
	parts := make([]change, len(rows))
	for i, row := range rows {
		parts[i] = change{b.list, b.Series, row.At, row.N}
	}
	if len(parts) > 0 {
		parts[0].at = b.at
	}
	return parts, err
}

func (d *DB) insertBlocks(ctx context.Context, parts []change) error {
	source, args, err := d.changes(parts)
	if err != nil {
		return err
	}
	_, err = d.SQL(ctx).ExecContext(ctx, `INSERT INTO list_counts (list, owner, status, start, n)
		SELECT list, owner, status, at, n FROM `+source+` WHERE n <> 0`, args...)
	return err
}

// Arms joins one SELECT for each status, of which each is read in the order of its index.
func Arms[S ~string](statuses []S, arm func(S) string) string {
	arms := make([]string, len(statuses))
	for i, status := range statuses {
		arms[i] = `SELECT * FROM (` + arm(status) + `) AS arm`
	}
	return strings.Join(arms, ` UNION ALL `)
}
