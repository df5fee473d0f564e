package deliveries

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
)

// How a page is read. There are two ways to its rows. Lists of given requests, and for all receivers those of all
// statuses or of the many delivered ones, go through the events. Lists for one receiver, or of the few open deliveries,
// go through indexes. Deliveries that wait or have ended are in these indexes; the few that workers hold have an index
// of their own. So each list is merged from arms, and each arm walks through one index. Then the filter and the key
// judge every row once more, since it may have changed between two statements.

// direction is the order of a list.
type direction struct {
	behind, until, order string // operators of what is behind one key and not behind another; the columns
	first, last          int64  // bounds of all uids
	half                 round.Kind
	sign                 int // of Key.compare
}

var (
	downwards = direction{"<", ">=", "uid DESC, round DESC", math.MaxInt64, 0, round.Receiver, -1}
	upwards   = direction{">", "<=", "uid, round", 0, math.MaxInt64, round.OwnEndpoint, 1}
)

func (f Filter) direction() direction {
	if f.oldest {
		return upwards
	}
	return downwards
}

// from returns the uid and the round behind which rows are looked for: those of the key, or those just before it when
// the key belongs to the half of the round's deliveries that is listed first.
func (d direction) from(behind Key) (uid, number int64) {
	switch {
	case behind.IsZero():
		return d.first, 0
	case behind.Kind == int64(d.half):
		return behind.UID, behind.Round - int64(d.sign)
	default:
		return behind.UID, behind.Round
	}
}

// done returns the key behind all deliveries of a round.
func (d direction) done(uid, number int64) Key {
	return Key{uid, number, int64(round.Receiver - d.half)}
}

// page reads a page of deliveries and returns the key that the next one is behind. This is the one place that lists
// them.
func (s *store) page(ctx context.Context, f Filter, behind Key, limit int) (rows []deliveryRow, next Key, err error) {
	through := s.throughIndexes
	if f.Requests != nil || f.Receiver == "" && (f.Status == "" || f.Status == Delivered) {
		through = s.throughEvents
	}
	rows, next, err = through(ctx, f, behind, limit)
	if err != nil {
		return nil, Key{}, fmt.Errorf("list webhook deliveries: %w", err)
	}
	sign := f.direction().sign
	rows = slices.DeleteFunc(rows, func(r deliveryRow) bool {
		return !f.chooses(r) || !behind.IsZero() && sign*r.key().compare(behind) <= 0
	})
	slices.SortFunc(rows, func(a, b deliveryRow) int { return sign * a.key().compare(b.key()) })
	if len(rows) > limit {
		return rows[:limit], rows[limit-1].key(), nil
	}
	return rows, next, nil
}

// arms returns the conditions that find deliveries by the filter's receiver and status, one for each index. A delivery
// that a worker attempts is in an index of its own, with few others.
func (f Filter) arms(s *store, receiver string) (arms []string) {
	of, waiting := ``, `status <> 'delivered' AND worker IS NULL AND uid > 0`
	if f.Receiver != "" {
		of = `destination = ` + receiver + ` AND destination <> 'own' AND `
		if s.DB.Spread() { // the supplier says on which server
			of += `supplier_id = ` + receiver + ` AND `
		}
		waiting = of + `worker IS NULL`
	}
	for _, status := range f.of() {
		if status == Pending {
			arms = append(arms, of+`worker IS NOT NULL`)
		}
		arms = append(arms, waiting+` AND status = '`+string(status)+`'`)
	}
	return arms
}

// throughIndexes reads from each arm what may be on the page, among the next that a page looks at. Where rows have to
// be looked at a first statement finds how far: the page ends there at the latest, and the next one begins behind it.
func (s *store) throughIndexes(ctx context.Context, f Filter, behind Key, limit int) (rows []deliveryRow, next Key,
	err error) {
	d := f.direction()
	read := func(columns, conditions, rows string) string {
		return s.merged(f.arms(s, `$4`), `SELECT `+columns+` FROM webhook_deliveries
			WHERE (uid, round) `+d.behind+` ($1, $2)`+conditions+` AND `, ` ORDER BY `+d.order, rows)
	}
	uid, number := d.from(behind)
	last := Key{UID: d.last}
	if f.looks() {
		args := []any{uid, number, looked}
		if f.Receiver != "" {
			args = append(args, f.Receiver)
		}
		found, err := database.Query(ctx, s.DB.ReaderSQL(ctx), read(`uid, round`, ``, ` LIMIT 1 OFFSET $3 - 1`), args,
			func(k *Key) []any { return []any{&k.UID, &k.Round} })
		if err != nil {
			return nil, Key{}, err
		}
		if len(found) > 0 {
			last, next = found[0], d.done(found[0].UID, found[0].Round)
		}
	}
	conditions := ` AND (uid, round) ` + d.until + ` ($5, $6) AND created_at >= $7 AND created_at < $8
		AND updated_at <= $9`
	if f.Receiver == "" {
		conditions += ` AND ($4 = '' OR supplier_id = $4)`
	}
	since, until, unchanged := f.times()
	// One more than the page has shows that there is another page; the delivery that the page is behind may be read too.
	args := []any{uid, number, limit + 2, f.Receiver + f.SupplierID, last.UID, last.Round, since, until, unchanged}
	rows, err = database.Query(ctx, s.DB.ReaderSQL(ctx), read(rowColumns, conditions, ` LIMIT $3`), args,
		(*deliveryRow).places)
	return rows, next, err
}

// merged returns the query of those rows, of the first $3, that all arms have together. PostgreSQL reads as many of
// each, or it would sort all that there are; SQLite goes through the indexes side by side, unless the arms are limited.
func (s *store) merged(arms []string, from, order, rows string) string {
	if s.Postgres() {
		return database.Arms(arms, func(arm string) string { return from + arm + order + ` LIMIT $3` }) + order + rows
	}
	return from + strings.Join(arms, ` UNION ALL `+from) + order + rows
}

// throughEvents reads the deliveries of the events that come next, until there are enough. They were made with them. It
// begins with as many events as the page needs if the filter chooses all, and doubles that while it chooses few. Given
// requests are read one after the other, by the key of their events: each may have any number of rounds.
func (s *store) throughEvents(ctx context.Context, f Filter, behind Key, limit int) (rows []deliveryRow, next Key,
	err error) {
	d := f.direction()
	uid, number := d.from(behind)
	since, until, _ := f.times()
	which := `(uid, round) ` + d.behind + ` ($1, $2)`
	if f.Requests != nil { // the list begins before them all, where none is
		which = `uid = $1 AND round ` + d.behind + ` $2`
	}
	for seen, n := 0, min(limit/2+2, eventsAtOnce); ; n = min(2*n, eventsAtOnce) { // most have two deliveries
		events, err := s.storedEvents(ctx, `webhook_events WHERE `+which+` ORDER BY `+d.order+` LIMIT $3`, uid, number, n)
		if err != nil {
			return nil, Key{}, err
		}
		chosen := slices.DeleteFunc(slices.Clone(events), func(e storedEvent) bool {
			return f.SupplierID != "" && e.supplierID != f.SupplierID || e.At < since || e.At >= until
		})
		found, err := s.byID(ctx, idsOfEvents(chosen))
		if err != nil {
			return nil, Key{}, err
		}
		rows = append(rows, slices.DeleteFunc(found, func(r deliveryRow) bool { return !f.chooses(r) })...)
		seen += len(events)
		if len(events) == n {
			uid, number = events[n-1].UID, events[n-1].number
		} else if i := slices.IndexFunc(f.Requests, func(r int64) bool { return d.sign*cmp.Compare(r, uid) > 0 }); i >= 0 {
			uid, number = f.Requests[i], d.first
		} else {
			return rows, Key{}, nil
		}
		if len(rows) > limit+1 || seen >= looked {
			return rows, d.done(uid, number), nil
		}
	}
}

// count counts the deliveries of the filter's receiver and status, up to most.
func (s *store) count(ctx context.Context, f Filter, most int) (n int64, err error) {
	args := []any{most}
	if f.Receiver != "" {
		args = append(args, f.Receiver)
	}
	all := database.Arms(f.arms(s, `$2`), func(arm string) string {
		return `SELECT 1 AS one FROM webhook_deliveries WHERE ` + arm + ` LIMIT $1`
	})
	_, err = database.One(ctx, s.DB.ReaderSQL(ctx), `SELECT count(*) FROM (`+all+` LIMIT $1) AS counted`, args, &n)
	return n, errs.Doing("count webhook deliveries", err)
}

// waiting counts what is pending for the suppliers' receivers, up to most for each, in one statement. Where little is,
// that takes 2 ms on SQLite and 6 on PostgreSQL for 500 receivers, and a statement for each 300 and 100.
func (s *store) waiting(ctx context.Context, suppliers []string, most int) ([]Waiting, error) {
	if s.DB.Spread() || len(suppliers) == 0 {
		return s.waitingSpread(ctx, suppliers, most)
	}
	list := database.Either(s.DB.Dialect, `SELECT unnest($1::text[]) AS id`, `SELECT value AS id FROM json_each($1)`)
	pending := Filter{Receiver: "w.id", Status: Pending}
	all := database.Arms(pending.arms(s, pending.Receiver),
		func(arm string) string { return `SELECT 1 AS one FROM webhook_deliveries WHERE ` + arm + ` LIMIT $2` })
	return database.Query(ctx, s.DB.ReaderSQL(ctx), `SELECT w.id,
			(SELECT count(*) FROM (`+all+` LIMIT $2) AS counted), (`+s.oldest("w.id")+`)
		FROM (`+list+`) AS w`, []any{s.DB.Values(suppliers), most},
		func(w *Waiting) []any { return []any{&w.supplierID, &w.N, scanTime{&w.Oldest}} })
}

// oldest returns the query of since when something is pending for a receiver, among the 100 that were accepted first.
func (s *store) oldest(receiver string) string {
	pending := Filter{Receiver: receiver, Status: Pending}
	return `SELECT min(since) FROM (` + database.Arms(pending.arms(s, receiver), func(arm string) string {
		return `SELECT ` + aboutSince + ` AS since FROM webhook_deliveries WHERE ` + arm + ` ORDER BY uid, round LIMIT 100`
	}) + `) AS oldest`
}
