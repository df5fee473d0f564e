package materials

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/supplyhub/supplyhub/internal/database"
)

// A supplier's requests of one status are in an index in the order in which they came; byAge is its condition.
const (
	byAge       = `created_at > 0`
	newestFirst = `created_at DESC, supplier_id, id DESC`
)

// Lists returns the lists whose rows are counted: a supplier's requests, and the orders of all.
func Lists() []database.List { return []database.List{requestList, orderList} }

var requestList = database.List{Name: "requests", At: "created_at",
	Rows: func(s database.Series) (string, []any) {
		from := `material_requests WHERE supplier_id = ? AND ` + byAge + ` AND status `
		if s.Status == "" {
			return from + `IN ('enqueued', 'estimated', 'selected', 'failed')`, []any{s.Owner}
		}
		return from + `= ?`, []any{s.Owner, s.Status}
	},
	Statuses:  []string{string(Enqueued), string(Estimated), string(Selected), string(Failed)},
	NextOwner: `SELECT min(supplier_id) FROM material_requests WHERE supplier_id > o.owner AND ` + byAge,
	OfAny: `material_requests WHERE supplier_id = b.owner AND ` + byAge + `
		AND status IN ('enqueued', 'estimated', 'selected', 'failed')`,
	OfOne: `material_requests WHERE supplier_id = b.owner AND ` + byAge + ` AND status = b.status`}

var orderList = database.List{Name: "orders", At: "selected_at",
	Rows: func(database.Series) (string, []any) {
		return `material_requests WHERE selected_at IS NOT NULL`, nil
	},
	Statuses:  []string{string(Selected)},
	NextOwner: `SELECT CAST(NULL AS text)`, // they are of all suppliers
	OfAny:     `material_requests WHERE selected_at IS NOT NULL`,
	OfOne:     `material_requests WHERE selected_at IS NOT NULL`}

// listing is one page before all of its records are read: a page of the largest requests has 200 MiB.
type listing struct {
	store *store
	total int64 // over all pages
	rows  []listed
	whole int64 // rows of at most so many bytes were read whole with the page
}

// listed is a row of the page and how many bytes it has.
type listed struct {
	requestRow
	size int64
}

func (l *listed) places() []any { return append(l.requestRow.places(), &l.size) }

func (l *listed) keyPlaces() []any { return []any{&l.SupplierID, &l.ID, &l.size} }

const (
	part  = 1 << 20 // about how many bytes of a page are read at once
	usual = 8 << 10 // a row of so many bytes is read with its page, of which a hundred are less than a part
)

// BodySize is the expression of how many bytes a request's body has at most, as one that is stored packed has eight
// times its own.
const BodySize = `octet_length(r.body) * 8`

const listedSize = BodySize + ` + coalesce(octet_length(r.estimates) + octet_length(r.unavailable), 1024)`

// list chooses one page of the supplier's requests, newest first; a nil status means any.
func (s *store) list(ctx context.Context, supplierID string, status *Status, limit int, offset int64) (listing,
	error) {
	series, of := database.Series{Owner: supplierID}, Statuses[:] // any status: merged from the lists of each
	if status != nil {
		series.Status, of = string(*status), []Status{*status}
	}
	l := listing{store: s}
	if !s.db.Spread() { // there a page of keys is not joined to their events
		l.whole = usual
	}
	return s.page(ctx, l, requestList, series, limit, offset, func(place database.Place) (string, []any) {
		var args []any
		newest := database.Arms(of, func(status Status) string {
			args = append(args, supplierID, status, place.Since, place.Before, place.Skip+place.Rows)
			return `SELECT created_at, id FROM material_requests WHERE supplier_id = ? AND status = ? AND ` + byAge +
				` AND created_at >= ? AND created_at < ? ORDER BY created_at DESC, id DESC LIMIT ?`
		})
		return `(` + newest + ` ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?) AS p
			JOIN material_requests r ON r.supplier_id = ? AND r.id = p.id ORDER BY p.created_at DESC, p.id DESC`,
			append(args, place.Rows, place.Skip, supplierID)
	})
}

// orders chooses one page of all suppliers' requests with a selected estimate, latest selection first: their keys by
// the index alone, as a page far behind others would else read a row of each of them.
func (s *store) orders(ctx context.Context, limit int, offset int64) (listing, error) {
	return s.page(ctx, listing{store: s}, orderList, database.Series{}, limit, offset,
		func(place database.Place) (string, []any) {
			return `(SELECT selected_at, supplier_id, id FROM material_requests
					WHERE selected_at IS NOT NULL AND selected_at < ? ORDER BY selected_at DESC, supplier_id, id LIMIT ? OFFSET ?) AS p
				JOIN material_requests r ON r.supplier_id = p.supplier_id AND r.id = p.id
				ORDER BY p.selected_at DESC, p.supplier_id, p.id`, []any{place.Before, place.Rows, place.Skip}
		})
}

// page chooses the rows of a page: requests r from what the function returns.
func (s *store) page(ctx context.Context, l listing, list database.List, series database.Series, limit int,
	offset int64, from func(database.Place) (string, []any),
) (listing, error) {
	place, err := s.db.Place(ctx, list, series, database.AnyTime, limit, offset)
	if err != nil {
		return l, err
	}
	if l.total = place.Total; offset >= l.total {
		return l, nil
	}
	chosen, places := `r.supplier_id, r.id`, (*listed).keyPlaces
	if l.whole > 0 {
		chosen, places = columns(fmt.Sprintf(`%s <= %d`, listedSize, l.whole), s.events.BodyOf), (*listed).places
	}
	rows, args := from(place)
	l.rows, err = database.Scan(s.db.Reader(ctx).Raw(`SELECT `+chosen+`, `+listedSize+` FROM `+rows, args...), places)
	if err != nil {
		return l, fmt.Errorf("choose %s: %w", list.Name, err)
	}
	return l, nil
}

// records reads the page in parts of about a mebibyte, each when it is asked for.
func (l listing) records(ctx context.Context) iter.Seq2[[]Record, error] {
	return func(yield func([]Record, error) bool) {
		for rest := l.rows; len(rest) > 0; {
			n, size := 1, rest[0].size
			for n < len(rest) && size+rest[n].size <= part {
				size += rest[n].size
				n++
			}
			records, err := l.read(ctx, rest[:n])
			if !yield(records, err) || err != nil {
				return
			}
			rest = rest[n:]
		}
	}
}

// read reads those of the rows that were not read with the page and returns all in their order; those that are gone
// meanwhile are left out.
func (l listing) read(ctx context.Context, wanted []listed) ([]Record, error) {
	const place = `, (?, CAST(? AS bigint))`
	var keys []any
	for _, w := range wanted {
		if w.size > l.whole {
			keys = append(keys, w.SupplierID, w.ID)
		}
	}
	found := make(map[requestKey]requestRow, len(keys)/2)
	if len(keys) > 0 {
		rows, err := database.Scan(l.store.db.Reader(ctx).Raw(`SELECT `+columns(`true`, l.store.events.BodyOf)+`
			FROM material_requests r WHERE (supplier_id, id) IN (VALUES `+strings.Repeat(place, len(keys)/2)[2:]+`)`,
			keys...), (*requestRow).places)
		if err != nil {
			return nil, fmt.Errorf("read material requests: %w", err)
		}
		for _, row := range rows {
			found[requestKey{row.SupplierID, row.ID}] = row
		}
	}
	records := make([]Record, 0, len(wanted))
	for _, w := range wanted {
		row, ok := w.requestRow, true
		if w.size > l.whole {
			row, ok = found[requestKey{w.SupplierID, w.ID}]
		}
		if !ok {
			continue
		}
		record, err := row.record()
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
	return records, nil
}
