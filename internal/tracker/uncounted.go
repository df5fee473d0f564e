package tracker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// Views that were not made here. Nothing is known of them: their ids may have any type, be null or repeat, their rows
// change without a sign, and they run the code of who made them. So each page is one transaction of its own, in a
// session that ends with it (database.Isolated), and rows are found by their place in an order of all that is shown of
// them, never by an id.

const viewRetry = 30 * time.Second // Retry-After of a view that cannot be read

// view is a view while a page of it is read.
type view struct {
	*relation
	s   *Service
	sel database.Select
}

// uncounted returns a page of the client's view. The service's own tables are read before the view and written after
// it: a page that holds a connection and waits for a second one waits for itself where the reader has one.
func (s *Service) uncounted(ctx context.Context, c Client, r *relation, key pinKey, q query,
	present func(view, context.Context, query) (state, error),
	page func(view, context.Context, state, query) (listing, error)) (l listing, err error) {
	first := q.page.number == 1
	noted, err := s.look(ctx, c, r, key, first)
	if err != nil {
		return listing{}, err
	}
	st := noted.pinned
	err = s.isolated(ctx, r, func(sel database.Select) (err error) {
		v := view{r, s, sel}
		if first || !noted.found {
			if st, err = present(v, ctx, q); err != nil {
				return err
			}
		}
		l, err = page(v, ctx, st, q)
		return err
	})
	if err != nil {
		return listing{}, err
	}
	s.saveCursor(ctx, r, key, st, first)
	return l, nil
}

// errNoLogin says that a command does not run the code of others with its own login.
var errNoLogin = errors.New("it belongs to another role, and TRACKER_DATABASE_URL, the login that reads such views, " +
	"is not set")

// isolated lets fn read the view by the login that may run its code.
func (s *Service) isolated(ctx context.Context, r *relation, fn func(database.Select) error) error {
	rows := s.rows
	if r.others() {
		rows = rows.Others()
		if !s.deps.Serving && !s.deps.DB.OthersApart() {
			return errNoLogin
		}
	}
	return rows.Isolated(ctx, fn)
}

// list returns a page of the view, newest load first. The rows after the first pages' newest id are left out, where ids
// are integers: those that come while a client reads on would move the others.
func (v view) list(ctx context.Context, st state, q query) (listing, error) {
	p := &parameters{r: v.relation}
	from := " FROM " + v.from + " WHERE " + p.upTo(st)
	if q.day != "" {
		from += " AND " + p.on(columnLoadDate, q.day)
	}
	var total int64
	err := v.sel(ctx, "SELECT count(*)"+from, func(row [][]byte) error { return scanInts(row, &total) }, p.args...)
	if err != nil {
		return listing{}, fmt.Errorf("count the view's rows: %w", err)
	}
	l := v.s.newListing(total, q)
	if q.page.offset() >= l.total {
		return l, nil
	}
	statement := "SELECT " + v.plain + from +
		" ORDER BY " + v.latest(columnLoadDate) + ", " + v.latest(columnID) + ", " + v.tied() +
		" LIMIT " + p.bind(int64(q.page.size)) + " OFFSET " + p.bind(q.page.offset())
	return l, v.s.fill(ctx, &l, v.sel, 0, statement, p.args...)
}

// snapshot returns a page of the devices that pinged on the target date, one record each, by device.
func (v view) snapshot(ctx context.Context, st state, q query) (listing, error) {
	if st.day == "" {
		return v.s.newListing(0, q), nil
	}
	places, err := v.winners(ctx, st, q)
	if err != nil {
		return listing{}, err
	}
	l := v.s.newListing(int64(len(places)), q)
	l.chosen = placeBytes * len(places)
	offset := q.page.offset()
	if offset >= l.total {
		return l, nil
	}
	return l, v.records(ctx, st, places[offset:min(offset+int64(q.page.size), l.total)], &l)
}

// target returns the present state with the given date, or the latest on which a device pinged.
func (v view) target(ctx context.Context, q query) (state, error) {
	st, err := v.present(ctx, q)
	if err != nil || q.day != "" {
		st.day = q.day
		return st, err
	}
	p := &parameters{r: v.relation}
	err = v.sel(ctx, v.lastPing(p.upTo(st)), func(row [][]byte) error {
		st.day = string(row[0])
		return nil
	}, p.args...)
	return st, errs.Doing("read the latest date of a ping", err)
}

// order returns the order in which a device's records are chosen.
func (v view) order() string {
	return v.latest(columnPingTime) + ", " + v.latest(columnLoadDate) + ", " + v.latest(columnID) + ", " + v.tied()
}

// winners returns the place in the order of each device's record of the state's day, the smallest device first. A text
// that is no number is no device.
func (v view) winners(ctx context.Context, st state, q query) ([]int64, error) {
	p := &parameters{r: v.relation}
	statement := "SELECT " + quote(columnDevice) + " FROM " + v.from +
		" WHERE " + p.upTo(st) + " AND " + p.on(columnPingDate, st.day) +
		" ORDER BY " + v.order()
	var place int64
	places := map[int64]int64{}
	err := v.sel(ctx, statement, func(row [][]byte) error {
		place++
		device, ok := parseInteger(strings.TrimSpace(string(row[0])))
		if _, chosen := places[device]; ok && !chosen {
			places[device] = place
			return q.holdDevices(len(places), mappedBytes)
		}
		return nil
	}, p.args...)
	devices := slices.Sorted(maps.Keys(places))
	return lists.Of(devices, func(d int64) int64 { return places[d] }), errs.Doing("choose the devices' records", err)
}

// records reads the rows of these places. A view may give other rows each time that it is read: errMoved.
func (v view) records(ctx context.Context, st state, places []int64, l *listing) error {
	p := &parameters{r: v.relation}
	condition := p.upTo(st) + " AND " + p.on(columnPingDate, st.day)
	statement := "SELECT " + v.joined + " FROM " + v.keyed(p.bind(v.s.deps.DB.Values(places))) +
		"JOIN (SELECT " + v.plain + ", row_number() OVER (ORDER BY " + v.order() + ") AS place" +
		" FROM " + v.from + " WHERE " + condition + ") AS r ON r.place = p.\"id\" ORDER BY p.turn"
	return v.s.fill(ctx, l, v.sel, len(places), statement, p.args...)
}

// present returns the largest id that there is, when ids are integers.
func (v view) present(ctx context.Context, _ query) (state, error) {
	st := state{maxID: noID}
	largest := "max(" + quote(columnID) + ")"
	switch {
	case !v.postgres(): // texts and blobs are larger than numbers
		largest = "CASE typeof(" + largest + ") WHEN 'integer' THEN " + largest + " END"
	case !v.types[columnID].integer():
		return st, nil
	}
	err := v.sel(ctx, "SELECT "+largest+" FROM "+v.from, func(row [][]byte) error {
		if row[0] == nil {
			return nil
		}
		return scanInts(row, &st.maxID)
	})
	return st, errs.Doing("read the view's largest id", err)
}

// upTo returns the condition that a row belongs to the state.
func (p *parameters) upTo(st state) string {
	if st.maxID == noID {
		return "true"
	}
	id := quote(columnID)
	return "(" + id + " <= " + p.bind(st.maxID) + " OR " + id + " IS NULL)"
}

// futile reports whether a view takes longer than a statement may, or more memory: once more it would again.
func futile(err error) bool {
	fault, ok := errors.AsType[*database.ViewError](err)
	return ok && (fault.Slow || fault.Large) || errors.Is(err, httpapi.ErrTooLarge)
}

// unread answers for a view that cannot be read, and names it in the log. The log's handler lets one line a minute
// through for each detail of an error, so the detail of the one that is logged is the view's name.
func (s *Service) unread(ctx context.Context, c Client, err error) error {
	if ctx.Err() != nil || errs.KindOf(err) != errs.Internal {
		return err
	}
	s.deps.Log.WarnContext(ctx, "the granted view "+c.Views[0]+" cannot be read", "client", c.ID, "error",
		errs.Wrap(errs.Unavailable, "view "+c.Views[0], err))
	// Of a view made here, rows are read without finding out whether an error is the view's fault.
	if _, known := errors.AsType[*database.ViewError](err); gone(err) || !known && gone(s.probe(ctx, c.Views[0])) {
		return noViews()
	}
	return errs.NewUnavailable("The view of this client cannot be read at the moment.", viewRetry, err)
}

// gone reports whether the view is not there, or may not be read.
func gone(err error) bool {
	fault, ok := errors.AsType[*database.ViewError](err)
	return errors.Is(err, errNoView) || ok && fault.Denied
}
