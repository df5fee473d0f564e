package tracker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// How a page is read. The client's first granted view becomes a relation (relation.go). Of a view that was made here,
// triggers count the records of each load day, so the total and the place of any page follow from a few numbers
// (days), and the page's own statement reads just its rows. Of a view of others nothing is known: count, ORDER BY and
// OFFSET do the work, under a timeout.
//
// A crawl reads page after page while records come in. Its first page notes which state of the view it saw (a pin, in
// the database, for any replica); later pages read the same. The page's statement checks next to its rows that the
// state is still there (guard). When it is not, the statement gives no row, and the page is read once more from the
// start.

const (
	listListing = "list"
	mostMoves   = 4       // of a view under one page, before it is given up
	deferFrom   = 200     // rows to skip, from which on ids are skipped instead of rows
	namesBytes  = 2 << 10 // of a record: its names, and what is between its texts
)

// listing is one page, with its answer as far as it is written: up to the last record.
type listing struct {
	total   int64
	records int // on the page
	body    []byte
	room    int // bytes that the body may have
	chosen  int // bytes of the list of records that a snapshot chose
	hold    func(more int) error
}

// newListing begins a body with the envelope's members; records follow. Who is done with the body puts its buffer back.
func (s *Service) newListing(total int64, q query) listing {
	var body []byte
	if used, ok := s.buffers.Get().(*[]byte); ok {
		body = (*used)[:0]
	}
	return listing{total: total, room: q.usual, hold: q.hold,
		body: fmt.Appendf(body, `{"page":%d,"pageSize":%d,"total":%d,"data":[`, q.page.number, q.page.size, total)}
}

// list returns a page of all rows of the client's view, newest load first.
func (s *Service) list(ctx context.Context, c Client, q query) (listing, error) {
	return s.read(ctx, c, func(ctx context.Context, r *relation) (listing, error) {
		key := pinKey{c.number, listListing, q.day, q.page.size}
		if r.counted() {
			return s.counted(ctx, c, r, key, q, whole, s.pageOf)
		}
		return s.uncounted(ctx, c, r, key, q, view.present, view.list)
	})
}

// read makes a page of the client's view, again when the view has changed meanwhile.
func (s *Service) read(ctx context.Context, c Client,
	page func(context.Context, *relation) (listing, error)) (listing, error) {
	if len(c.Views) == 0 {
		return listing{}, noViews()
	}
	lookedAgain := false
	for moved := 0; ; {
		r, l, err := s.readOnce(ctx, c, page)
		switch {
		case err == nil:
			return l, nil
		case r == nil:
			return listing{}, s.unread(ctx, c, err)
		case errors.Is(err, errMoved) && moved < mostMoves:
			moved++
		case ctx.Err() != nil || errors.Is(err, errClientChanged) || errs.KindOf(err) == errs.Unavailable:
			return listing{}, err
		case !lookedAgain && !futile(err):
			lookedAgain = true // the view may have been made again, or dropped; then its rows are not those counted
			s.relations.Remove(c.Views[0])
		default:
			return listing{}, s.unread(ctx, c, err)
		}
	}
}

// readOnce looks at the client's view when it is the client's turn, and makes a page of it; r is nil when there is
// none.
func (s *Service) readOnce(ctx context.Context, c Client, page func(context.Context, *relation) (listing, error)) (
	r *relation, l listing, err error) {
	err = s.turns.in(ctx, c.ID, func() error {
		if r, err = s.resolve(ctx, c.Views[0]); err == nil && r.counted() {
			l, err = page(ctx, r)
		}
		return err
	})
	if err == nil && !r.counted() {
		err = share(s.turns.others, c.ID, func() (err error) {
			l, err = page(ctx, r)
			return err
		})
	}
	return r, l, err
}

// counted returns a page of a view made here: of the state that this process noted for the crawl a moment ago, or of
// the one that is looked up.
func (s *Service) counted(ctx context.Context, c Client, r *relation, key pinKey, q query,
	present func(context.Context, *relation, state, query) (state, error),
	page func(context.Context, *relation, guard, query) (listing, error)) (listing, error) {
	g := guard{client: c, owner: r.owner, view: r.granted, key: key, first: q.page.number == 1}
	if g.st, g.strict = s.remembered(r, key); g.strict {
		if l, err := page(ctx, r, g, q); err == nil && l.records > 0 || futile(err) {
			return l, err
		}
	}
	l, err := s.look(ctx, c, r, key, g.first)
	if err != nil {
		return listing{}, err
	}
	g.st, g.strict = l.pinned, false
	if g.first || !l.found {
		if g.st, err = present(ctx, r, l.present, q); err != nil {
			return listing{}, err
		}
	}
	s.saveCursor(ctx, r, key, g.st, g.first)
	return page(ctx, r, g, q)
}

// whole returns the present state as the list reads it.
func whole(_ context.Context, _ *relation, present state, _ query) (state, error) {
	return present, nil
}

// pageOf returns the list's page of the guard's state, which the counters of its days find: its depth costs nothing.
func (s *Service) pageOf(ctx context.Context, r *relation, g guard, q query) (listing, error) {
	counts, err := s.daysOf(ctx, r, g.st)
	if err != nil {
		return listing{}, err
	}
	total := counts.total()
	day, skip := q.day, q.page.offset()
	if q.day != "" {
		total = counts.of(q.day)
	} else if skip < total {
		day, skip = counts.at(skip)
	}
	l := s.newListing(total, q)
	if q.page.offset() >= l.total {
		return l, nil
	}
	want := min(int64(q.page.size), l.total-q.page.offset())
	f := form{strict: g.strict, first: g.first, oneDay: q.day != "", deferred: skip >= deferFrom}
	if after := counts.of(day) - skip - want; after >= 0 && after < skip {
		f.deferred, f.oneDay, f.fromEnd, skip = true, true, true, after // the same rows, reached over fewer
	}
	return l, s.fill(ctx, &l, s.rows.Select, int(want), r.statement(f), g.args(day, g.st.maxID, want, skip)...)
}

// fill appends the records that a statement reads. Errors: errMoved when they are not as many as wanted, if that is
// known.
func (s *Service) fill(ctx context.Context, l *listing, sel database.Select, want int, statement string,
	args ...any) error {
	err := sel(ctx, statement, func(row [][]byte) error {
		if err := l.makeRoom(row); err != nil {
			return err
		}
		if l.records++; l.records > 1 {
			l.body = append(l.body, ',')
		}
		l.body = s.encoder.appendRecord(l.body, row)
		return nil
	}, args...)
	if err == nil && want > 0 && l.records != want {
		err = errMoved
	}
	return errs.Doing("read page", err)
}

// makeRoom lets the caller hold what the body grows by with a row: a view may have fields of any length. Errors:
// errs.Unavailable, httpapi.ErrTooLarge.
func (l *listing) makeRoom(row [][]byte) error {
	size := 0
	for _, text := range row {
		size += len(text)
	}
	if len(l.body)+namesBytes+mostQuoted*size <= l.room { // most are
		return nil
	}
	size = namesBytes
	for _, text := range row {
		size += quotedBytes(text)
	}
	if len(l.body)+size <= l.room {
		return nil
	}
	grown := 0
	if len(l.body)+size > cap(l.body) {
		const part = 4 // as append does
		grown = max(len(l.body)+size, cap(l.body)+cap(l.body)/part)
	}
	if err := l.hold(l.chosen + cap(l.body) + grown); err != nil { // while it is copied there are both
		return err
	}
	l.body = slices.Grow(l.body, size)
	l.room = cap(l.body)
	return nil
}

// form is what the text of a page's statement depends on, apart from its view.
type form struct {
	strict, first bool // as the guard
	fleet         bool // a page of the snapshot, by its ids; else of the list, as the others say
	oneDay        bool // rows of one load day only; else the page may go on into older days
	deferred      bool // ids are skipped instead of rows
	fromEnd       bool // the page is read from its day's end
}

// statement returns the text of a page's statement, which is made once.
func (r *relation) statement(f form) string {
	if text, known := r.statements.Load(f); known {
		return text.(string) //nolint:forcetypeassert // stored below
	}
	text := r.listStatement(f)
	if f.fleet {
		text = r.fleetStatement(f)
	}
	r.statements.Store(f, text)
	return text
}

// byID joins the view's rows r by the ids of p. OFFSET 0 keeps PostgreSQL's planner, and CROSS JOIN SQLite's, from
// reading all rows instead.
func (r *relation) byID() string {
	return `CROSS JOIN ` + database.Either(r.dialect,
		`LATERAL (SELECT * FROM `+r.from+` v WHERE v."id" = p."id" OFFSET 0) r`, r.from+` r ON r."id" = p."id"`)
}

// listStatement takes a day, the largest id, how many rows to read and how many to skip; then the guard's parameters.
func (r *relation) listStatement(f form) string {
	compare, order := `<=`, `"dt_carga" DESC, "id" DESC`
	if f.oneDay {
		compare = `=`
	}
	if f.fromEnd {
		order = `"dt_carga", "id"`
	}
	chosen := ` FROM ` + r.from + ` WHERE ` + f.guarded(5) + ` AND "dt_carga" ` + compare + ` ` + r.day(`$1`) +
		` AND "id" <= $2 ORDER BY ` + order + ` LIMIT $3 OFFSET $4`
	if !f.deferred {
		return `SELECT ` + r.plain + chosen
	}
	return `SELECT ` + r.joined + ` FROM (SELECT "id", "dt_carga"` + chosen + `) p ` + r.byID() +
		` ORDER BY p."dt_carga" DESC, p."id" DESC`
}

// daysOf counts the state's rows by load day: the present counters less what came after the state.
func (s *Service) daysOf(ctx context.Context, r *relation, st state) (days, error) {
	key := mapKey{r.granted, state{generation: st.generation, maxID: st.maxID}, listListing}
	if known, found := s.maps.get(key); found {
		return known.days, nil
	}
	statement := `WITH newer AS MATERIALIZED (
			SELECT "dt_carga" AS day, count(*) AS records FROM ` + r.from + ` WHERE "id" > $2
			AND (SELECT max_id FROM tracker_versions WHERE client_number = $1) > $2 GROUP BY 1)
		SELECT v.generation, v.max_id, d.records - coalesce(newer.records, 0), d.dt_carga
		FROM tracker_versions v LEFT JOIN tracker_days d ON d.client_number = v.client_number
			LEFT JOIN newer ON newer.day = d.dt_carga
		WHERE v.client_number = $1 ORDER BY d.dt_carga DESC`
	var counts days
	err := st.read(ctx, s.rows.Select, statement, func(row [][]byte) (err error) {
		var records int64
		if row[0] != nil {
			err = scanInts(row[:1], &records)
		}
		if records > 0 {
			counts = append(counts, dayCount{day: string(row[1]), records: records})
		}
		return err
	}, r.owner, st.maxID)
	if err != nil {
		return nil, fmt.Errorf("count the view's days: %w", err)
	}
	s.maps.put(key, &pageMap{days: counts})
	return counts, nil
}

// fieldList returns the fields of a record, each from the table of the prefix.
func fieldList(prefix string) string {
	return strings.Join(lists.Of(fields(), func(f field) string { return prefix + quote(f.name) }), ", ")
}

// parameters numbers the parameters of a statement, and keeps their arguments.
type parameters struct {
	r    *relation
	args []any
}

// bind returns the next parameter, $1 first.
func (p *parameters) bind(arg any) string {
	p.args = append(p.args, arg)
	return "$" + strconv.Itoa(len(p.args))
}

// day returns a parameter as a day of a view made here.
func (r *relation) day(parameter string) string {
	return parameter + database.Either(r.dialect, "::date", "")
}

// on returns the condition that the column's date is the day.
func (p *parameters) on(column, day string) string { return p.r.on(column, p.bind(day)) }
