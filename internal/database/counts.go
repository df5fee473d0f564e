package database

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

const (
	countUnit  = 1 << 18 // microseconds in which changes are noted
	blockRows  = 1000    // of a block that was split
	mostRows   = 2 * blockRows
	foldedRows = 20_000 // changes that one transaction adds to the blocks
)

// List is a list whose rows triggers count, newest first by a time that they keep.
type List struct {
	Name string
	At   string                                 // the time's column
	Rows func(Series) (from string, args []any) // the series' rows, as FROM takes them with a WHERE that is not over yet
}

// Series is what is counted of a list: the rows of one owner in one status; an empty status: in any.
type Series struct{ Owner, Status string }

// changed is the column of list_changes that counts the series.
func (s Series) changed() string {
	if s.Status == "" {
		return "total"
	}
	return "n"
}

// column is compared with the series' status; all changes belong to the one without.
func (s Series) column() string {
	if s.Status == "" {
		return "''"
	}
	return "status"
}

// Range bounds the time of a list's rows; Since is inclusive, Until is not.
type Range struct{ Since, Until int64 }

// AnyTime bounds nothing.
var AnyTime = Range{0, math.MaxInt64}

// Place is where a page begins.
type Place struct {
	Total  int64 // rows of the list
	Before int64 // the page's rows are before this time …
	Skip   int64 // … behind so many others that are
}

// placing counts the rows from either end of the range on: by blocks, and by the rows of one block. A page begins in the oldest
// block that is not wholly behind its beginning.
const placing = `WITH entries AS (
		SELECT start AS at, n, 1 AS block FROM list_counts WHERE list = ? AND owner = ? AND status = ?
		UNION ALL SELECT at, %[3]s, 0 FROM list_changes WHERE list = ? AND owner = ? AND %[4]s = ?),
	bounds AS (SELECT b.side, b.at, coalesce((SELECT min(e.at) FROM entries e WHERE e.block = 1 AND e.at >= b.at), 9223372036854775807) AS edge
		FROM (SELECT 1 AS side, CAST(? AS bigint) AS at UNION ALL SELECT 2, CAST(? AS bigint)) AS b),
	newer AS (SELECT b.side, CAST(coalesce((SELECT sum(e.n) FROM entries e WHERE e.at >= b.edge), 0) AS bigint)
		+ (SELECT count(*) FROM %[1]s AND %[2]s >= b.at AND %[2]s < b.edge) AS n FROM bounds b),
	blocks AS (SELECT at, block, CAST(sum(n) OVER (ORDER BY at DESC) AS bigint) AS n FROM entries),
	place AS (SELECT b.at, b.n FROM blocks b WHERE b.block = 1 AND b.at < ? AND b.n <= ? + (SELECT n FROM newer WHERE side = 2) ORDER BY b.at LIMIT 1)
	SELECT (SELECT n FROM newer WHERE side = 1) AS since, (SELECT n FROM newer WHERE side = 2) AS until,
		(SELECT at FROM place) AS place, (SELECT n FROM place) AS above`

// Place finds the page that begins behind so many rows of the series, and returns how many rows there are. It reads the counts
// and at most two blocks' rows by their index, however many there are.
func (d *DB) Place(ctx context.Context, l List, s Series, r Range, offset int64) (p Place, err error) {
	from, rows := l.Rows(s)
	args := append([]any{l.Name, s.Owner, s.Status, l.Name, s.Owner, s.Status, r.Since, r.Until}, rows...)
	var found struct {
		Since, Until int64
		Place, Above *int64
	}
	err = d.Reader(ctx).Raw(fmt.Sprintf(placing, from, l.At, s.changed(), s.column()), append(args, r.Until, offset)...).Scan(&found).Error
	if err != nil {
		return p, fmt.Errorf("count %s: %w", l.Name, err)
	}
	p = Place{Total: max(found.Since-found.Until, 0), Before: r.Until, Skip: offset}
	if found.Place != nil {
		p.Before, p.Skip = *found.Place, offset+found.Until-*found.Above
	}
	return p, nil
}

// change is a row of list_changes, or of list_counts.
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
	if err := d.Reader(ctx).Raw(`SELECT count(*) FROM (SELECT 1 FROM list_changes LIMIT 1) AS c`).Scan(&any).Error; err != nil || any == 0 {
		return false, Translate(err)
	}
	err = d.InTx(ctx, func(ctx context.Context) error {
		held, err := d.TryLock(ctx, "counts")
		if err != nil || !held {
			return err
		}
		changes, err := d.takeChanges(ctx)
		if err != nil {
			return err
		}
		more = len(changes) == foldedRows
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
	blocks, err := Query(ctx, d.SQL(ctx), `SELECT list, owner, status, start, n FROM list_counts WHERE n > $1`, []any{mostRows}, (*change).places)
	for _, b := range blocks {
		if err != nil {
			break
		}
		err = d.InTx(ctx, func(ctx context.Context) error {
			held, err := d.TryLock(ctx, "counts")
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

// noted is a row of list_changes: a change of its status, and one of all of them.
type noted struct {
	change
	total int64
}

func (d *DB) takeChanges(ctx context.Context) ([]noted, error) {
	rows := `(list, owner, status, at) IN (SELECT list, owner, status, at FROM list_changes LIMIT ?)`
	if d.engine == Postgres {
		rows = `ctid = ANY (ARRAY(SELECT ctid FROM list_changes LIMIT $1))`
	}
	return Query(ctx, d.SQL(ctx), `DELETE FROM list_changes WHERE `+rows+` RETURNING list, owner, status, at, n, total`, []any{foldedRows},
		func(n *noted) []any { return append(n.places(), &n.total) })
}

// addChanges returns the blocks that were changed, as they are now.
func (d *DB) addChanges(ctx context.Context, rows []noted) ([]change, error) {
	var changes []change
	for _, row := range rows {
		if row.n != 0 {
			changes = append(changes, row.change)
		}
		if row.total != 0 {
			changes = append(changes, change{row.list, Series{Owner: row.Owner}, row.at, row.total})
		}
	}
	source, args, err := d.changes(changes)
	if err != nil {
		return nil, err
	}
	blocks, err := Query(ctx, d.SQL(ctx), `INSERT INTO list_counts (list, owner, status, start, n)
		SELECT list, owner, status, start, CAST(sum(n) AS bigint) FROM (
			SELECT c.list, c.owner, c.status, c.n, coalesce((SELECT b.start FROM list_counts b WHERE b.list = c.list AND b.owner = c.owner
				AND b.status = c.status AND b.start <= c.at ORDER BY b.start DESC LIMIT 1), 0) AS start
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

// changes is a table c of the changes, and the parameters that it takes.
func (d *DB) changes(changes []change) (table string, args []any, err error) {
	if d.engine == Postgres {
		n := len(changes)
		lists, owners, statuses, at, counts := make([]string, n), make([]string, n), make([]string, n), make([]int64, n), make([]int64, n)
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
	return `(SELECT value->>0 AS list, value->>1 AS owner, value->>2 AS status, value->>3 AS at, value->>4 AS n FROM json_each(?)) AS c`,
		[]any{string(text)}, err
}

// deleteBlock reports whether the block was there.
func (d *DB) deleteBlock(ctx context.Context, b change) (bool, error) {
	deleted := d.From(ctx).Exec(`DELETE FROM list_counts WHERE list = ? AND owner = ? AND status = ? AND start = ?`, b.list, b.Owner, b.Status, b.at)
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

// split counts a block's rows anew, as they were when the noted changes were not yet made, and makes blocks of blockRows or
// little more of them.
func (d *DB) split(ctx context.Context, l List, b change) error {
	var end int64
	err := d.From(ctx).Raw(`SELECT coalesce(min(start), ?) FROM list_counts WHERE list = ? AND owner = ? AND status = ? AND start > ?`,
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

func (d *DB) parts(ctx context.Context, l List, b change, end int64) ([]change, error) {
	from, args := l.Rows(b.Series)
	args = append(append(args, b.at, end), l.Name, b.Owner, b.Status, b.at, end)
	rows, err := d.From(ctx).Raw(fmt.Sprintf(`SELECT at, CAST(sum(n) AS bigint) FROM (
			SELECT %[1]s & -%[2]d AS at, count(*) AS n FROM %[3]s AND %[1]s >= ? AND %[1]s < ? GROUP BY 1
			UNION ALL SELECT at, -%[4]s FROM list_changes WHERE list = ? AND owner = ? AND %[5]s = ? AND at >= ? AND at < ?) AS counted
		GROUP BY at HAVING sum(n) <> 0 ORDER BY at`, l.At, countUnit, from, b.changed(), b.column()), args...).Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	parts := []change{{b.list, b.Series, b.at, 0}}
	for rows.Next() {
		var at, n int64
		if err := rows.Scan(&at, &n); err != nil {
			return nil, err
		}
		if parts[len(parts)-1].n >= blockRows {
			parts = append(parts, change{b.list, b.Series, at, 0})
		}
		parts[len(parts)-1].n += n
	}
	return parts, rows.Err()
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
