package materials

import (
	"context"
	"fmt"

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

// listing is one page before its records are read: a page of the largest requests has 200 MiB.
type listing struct {
	store *store
	total int64 // over all pages
	rows  []listed
}

// listed is a row of the page and how many bytes it has.
type listed struct {
	SupplierID string
	ID         int64
	Size       int64
}

// BodySize is the expression of how many bytes a request's body has at most; a packed one has eight times its own.
const BodySize = `octet_length(r.body) + coalesce(octet_length(r.packed) * 8, 0)`

const listedColumns = `SELECT r.supplier_id, r.id,
	` + BodySize + ` + coalesce(octet_length(r.estimates) + octet_length(r.unavailable), 1024) AS size FROM `

// list chooses one page of the supplier's requests, newest first; a nil status means any.
func (s *store) list(ctx context.Context, supplierID string, status *Status, limit int, offset int64) (listing,
	error) {
	series, of := database.Series{Owner: supplierID}, Statuses[:] // any status: merged from the lists of each
	if status != nil {
		series.Status, of = string(*status), []Status{*status}
	}
	return s.page(ctx, requestList, series, limit, offset, func(place database.Place) (string, []any) {
		var args []any
		newest := database.Arms(of, func(status Status) string {
			args = append(args, supplierID, status, place.Since, place.Before, place.Skip+place.Rows)
			return `SELECT created_at, id FROM material_requests WHERE supplier_id = ? AND status = ? AND ` + byAge +
				` AND created_at >= ? AND created_at < ? ORDER BY created_at DESC, id DESC LIMIT ?`
		})
		return listedColumns + `(` + newest + ` ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?) AS p
			JOIN material_requests r ON r.supplier_id = ? AND r.id = p.id ORDER BY p.created_at DESC, p.id DESC`,
			append(args, place.Rows, place.Skip, supplierID)
	})
}

// orders chooses one page of all suppliers' requests with a selected estimate, latest selection first.
func (s *store) orders(ctx context.Context, limit int, offset int64) (listing, error) {
	return s.page(ctx, orderList, database.Series{}, limit, offset, func(place database.Place) (string, []any) {
		return listedColumns + `material_requests r WHERE selected_at IS NOT NULL AND selected_at < ?
			ORDER BY selected_at DESC, supplier_id, id LIMIT ? OFFSET ?`, []any{place.Before, place.Rows, place.Skip}
	})
}

func (s *store) page(ctx context.Context, list database.List, series database.Series, limit int, offset int64,
	rows func(database.Place) (string, []any),
) (listing, error) {
	l := listing{store: s}
	place, err := s.db.Place(ctx, list, series, database.AnyTime, limit, offset)
	if err != nil {
		return l, err
	}
	if l.total = place.Total; offset >= l.total {
		return l, nil
	}
	statement, args := rows(place)
	if err := s.db.Reader(ctx).Raw(statement, args...).Scan(&l.rows).Error; err != nil {
		return l, fmt.Errorf("choose %s: %w", list.Name, err)
	}
	return l, nil
}
