package database

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Range bounds the time of a list's rows; Since is inclusive, Until is not.
type Range struct{ Since, Until int64 }

// AnyTime bounds nothing.
var AnyTime = Range{0, math.MaxInt64}

// Place is where a page begins.
type Place struct {
	Total  int64 // rows of the list
	Since  int64 // the page's rows are at this time or later …
	Before int64 // … and before this one …
	Skip   int64 // … behind so many others that are
	Rows   int64 // of the page at most
}

// placing reads the blocks of a series and what is noted of it, each as one text: a million rows have a thousand
// blocks, and reading these as rows, or adding them up in the database, takes several times as long.
const placing = `SELECT coalesce((SELECT string_agg(start || ',' || n, ',') FROM list_counts
		WHERE list = ? AND owner = ? AND status = ?), '') AS blocks,
	coalesce((SELECT string_agg(at || ',' || n, ',') FROM (SELECT at, ` + noted + ` AS n FROM list_changes
		WHERE list = ? AND owner = ?) AS c WHERE n <> 0), '') AS changes`

// placingBehind counts the rows from a bound of the time to the next block.
const placingBehind = `, (SELECT count(*) FROM %[1]s AND %[2]s >= ? AND %[2]s < coalesce((SELECT min(start)
		FROM list_counts WHERE list = ? AND owner = ? AND status = ? AND start >= ?), 9223372036854775807)) AS %[3]s`

// Place finds the page of so many rows that begins behind so many of the series, and returns how many rows there are.
// It reads the counts and at most two blocks' rows by their index, however many there are.
func (d *DB) Place(ctx context.Context, l List, s Series, r Range, limit int, offset int64) (p Place, err error) {
	if d.Spread() {
		return d.countPlace(ctx, l, s, r, limit, offset)
	}
	statement := placing
	args := slices.Concat([]any{l.Name, s.Owner, s.Status}, s.noted(), []any{l.Name, s.Owner})
	if r != AnyTime {
		from, rows := l.Rows(s)
		statement += fmt.Sprintf(placingBehind, from, l.At, `since`) + fmt.Sprintf(placingBehind, from, l.At, `until`)
		for _, bound := range []int64{r.Since, r.Until} {
			args = slices.Concat(args, rows, []any{bound, l.Name, s.Owner, s.Status, bound})
		}
	}
	var found struct {
		Blocks, Changes string
		Since, Until    int64
	}
	if err := d.Reader(ctx).Raw(statement, args...).Scan(&found).Error; err != nil {
		return p, fmt.Errorf("count %s: %w", l.Name, err)
	}
	steps, err := stepsOf(found.Blocks, found.Changes)
	if err != nil {
		return p, fmt.Errorf("read the counts of %s: %w", l.Name, err)
	}
	if r == AnyTime {
		found.Since = steps.newer(math.MinInt64)
	} else {
		found.Since += steps.newer(steps.edge(r.Since))
		found.Until += steps.newer(steps.edge(r.Until))
	}
	p = Place{Total: max(found.Since-found.Until, 0), Since: r.Since, Before: r.Until, Skip: offset}
	p.Rows = min(int64(limit), p.Total-offset)
	if offset < p.Total {
		p.narrow(steps, offset+found.Until, limit)
	}
	return p, nil
}

// step is how many rows a block has, or how many more or fewer are noted at its time.
type step struct {
	at, n int64
	block bool
}

// steps are the newest first.
type steps []step

// stepsOf reads times and counts in turn.
func stepsOf(blocks, changes string) (steps, error) {
	all := make(steps, 0, (strings.Count(blocks, ",")+strings.Count(changes, ","))/2+2)
	for i, text := range []string{blocks, changes} {
		for len(text) > 0 {
			var at, n string
			at, text, _ = strings.Cut(text, ",")
			n, text, _ = strings.Cut(text, ",")
			one := step{block: i == 0}
			var err error
			if one.at, err = strconv.ParseInt(at, 10, 64); err != nil {
				return nil, err
			}
			if one.n, err = strconv.ParseInt(n, 10, 64); err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	slices.SortFunc(all, step.compare)
	return all, nil
}

// compare orders steps, the newest first: what is noted at the time that a block begins counts with its rows.
func (s step) compare(other step) int {
	if s.at == other.at && s.block != other.block {
		if s.block {
			return 1
		}
		return -1
	}
	return cmp.Compare(other.at, s.at)
}

// edge returns the beginning of the first block that does not begin before the bound.
func (s steps) edge(bound int64) int64 {
	edge := int64(math.MaxInt64)
	for _, one := range s {
		if one.block && one.at >= bound {
			edge = one.at
		}
	}
	return edge
}

// newer counts the rows at a time or later.
func (s steps) newer(at int64) (n int64) {
	for _, one := range s {
		if one.at >= at {
			n += one.n
		}
	}
	return n
}

// narrow has the page, which is behind so many rows of the series, begin in the oldest block that is not wholly behind
// its beginning. It ends in the newest block that has all of it, and as many others as may leave the list meanwhile:
// where rows have left a status, what is left of them in its index until it is vacuumed is not gone through.
func (p *Place) narrow(s steps, behind int64, limit int) {
	until, ends := p.Before, int64(math.MinInt64)
	var newer int64 // rows that are not older than the block
	for _, one := range s {
		newer += one.n
		if !one.block {
			continue
		}
		if one.at < until && newer <= behind {
			p.Before, p.Skip = one.at, behind-newer
		}
		if newer >= behind+int64(limit)+blockRows {
			ends = max(ends, one.at)
		}
	}
	p.Since = max(p.Since, ends)
}
