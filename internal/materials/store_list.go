package materials

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// Lists are cursors over the uid, newest first. Without a status, a supplier's list is merged from one arm for each
// status, each of which walks the index in its order; so a page costs its own rows at any depth. The rows are chosen
// first, by their sizes, and read in parts of about a mebibyte while the answer is written: a page of the largest
// requests has 200 MiB.

// Newest is the uid behind which the first page of requests begins.
const Newest = math.MaxInt64

const (
	part   = 1 << 20 // about how many bytes of a page are read at once
	looked = 1000    // requests that a page looks at when no index has those that are wanted alone
)

// newest returns the query of the newest requests that the filter chooses behind a uid, at most limit of them. No index
// has all suppliers' requests that are estimated, or selected.
func newest(columns string, filter Filter, behind int64, limit int) (query string, args []any) {
	args = []any{behind, limit, filter.SupplierID}
	of := func(condition string) string {
		return `SELECT ` + columns + ` FROM material_requests WHERE ` + condition + ` AND uid < $1 ORDER BY uid DESC LIMIT $2`
	}
	ofSupplier := func(status Status) string {
		return of(`round > 0 AND supplier_id = $3 AND status = '` + string(status) + `'`)
	}
	switch {
	case filter == Filter{}:
		return of(`uid > 0`), args[:2]
	case filter.SupplierID == "":
		return of(`uid > 0 AND status = '` + string(filter.Status) + `'`), args[:2]
	case filter.Status != "":
		return ofSupplier(filter.Status), args
	}
	// Merged from those of each status. Only those enqueued requests are looked at that may be on the page: rows that
	// left the status are in the index until it is vacuumed.
	return `WITH settled AS (` +
		database.Arms([]Status{Estimated, Selected, Failed}, ofSupplier) + ` ORDER BY uid DESC LIMIT $2)
		SELECT * FROM settled UNION ALL SELECT * FROM (` + of(`round > 0 AND supplier_id = $3 AND status = 'enqueued'
			AND uid > (SELECT CASE count(*) WHEN $2 THEN min(uid) ELSE 0 END FROM settled)`) + `) AS enqueued
		ORDER BY uid DESC LIMIT $2`, args
}

// overviewRow is an Overview as it is stored.
type overviewRow struct {
	Overview
	failure              string
	createdAt, updatedAt int64
}

const overviewColumns = `supplier_id, id, uid, status, shop_code, round, failure, created_at, updated_at`

// places returns where database.Query reads overviewColumns to.
func (r *overviewRow) places() []any {
	return []any{&r.SupplierID, &r.ID, &r.UID, &r.Status, &r.ShopCode, &r.Round, &r.failure, &r.createdAt, &r.updatedAt}
}

// queryOverviews reads the rows of a query of overviewColumns.
func (s *store) queryOverviews(ctx context.Context, query string, args ...any) ([]Overview, error) {
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), query, args, (*overviewRow).places)
	return lists.Of(rows, func(row overviewRow) Overview {
		row.Failure = row.Status.WhyFailed(row.failure)
		row.CreatedAt, row.UpdatedAt = instant(row.createdAt), instant(row.updatedAt)
		return row.Overview
	}), errs.Doing("list material requests", err)
}

// overviews reads a page of what the filter chooses. It returns the uid behind which the next page begins; 0: that was
// all. Where no index has just those it looks at a bounded number of requests, and the page may be short or empty.
func (s *store) overviews(ctx context.Context, filter Filter, behind int64, limit int) (page []Overview, next int64,
	err error) {
	asked, most := filter, limit
	if filter.SupplierID == "" && (filter.Status == Estimated || filter.Status == Selected) {
		asked, most = Filter{}, looked
	}
	query, args := newest(overviewColumns, asked, behind, most+1)
	found, err := s.queryOverviews(ctx, query, args...)
	if err != nil {
		return nil, 0, err
	}
	page = []Overview{}
	for i, one := range found {
		if i == most || len(page) == limit {
			return page, found[i-1].UID, nil
		}
		if filter.Status == "" || one.Status == filter.Status {
			page = append(page, one)
		}
	}
	return page, 0, nil
}

// ofID reads at most limit requests of an id, of which every supplier may have one.
func (s *store) ofID(ctx context.Context, id int64, limit int) ([]Overview, error) {
	columns := `r.` + strings.ReplaceAll(overviewColumns, `, `, `, r.`)
	return s.queryOverviews(ctx, `SELECT `+columns+` FROM suppliers s
		JOIN material_requests r ON r.supplier_id = s.id AND r.id = $1 ORDER BY s.id LIMIT $2`, id, limit)
}

// traceLooked bounds the search for an X-Request-Id, which has no index: to the newest requests.
const traceLooked = 10_000

// traced returns at most limit of the newest requests that came with the X-Request-Id.
func (s *store) traced(ctx context.Context, traceID string, limit int) ([]Overview, error) {
	return s.queryOverviews(ctx, `SELECT `+overviewColumns+` FROM (SELECT trace_id, `+overviewColumns+`
		FROM material_requests WHERE uid > 0 ORDER BY uid DESC LIMIT $1) AS newest
		WHERE trace_id = $2 ORDER BY uid DESC LIMIT $3`, traceLooked, traceID, limit)
}

// listing is a page before its records are read: those of the largest requests have 200 MiB. The page is fixed by its
// rows' keys from then on; a row that a later statement finds changed is shown as it is then.
type listing struct {
	store *store
	rows  []listed
	more  bool // rows are behind it
}

// listed is a row of a page and how many bytes it has.
type listed struct {
	requestKey
	uid, selectedAt, size int64
}

// BodySize is the expression of how many bytes a request's body has at most, as one that is stored packed has eight
// times its own.
const BodySize = `octet_length(body) * 8`

const listedColumns = `supplier_id, id, uid, coalesce(selected_at, 0), ` + BodySize +
	` + coalesce(octet_length(estimates) + octet_length(unavailable), 1024)`

// places returns where database.Query reads listedColumns to.
func (l *listed) places() []any { return []any{&l.SupplierID, &l.ID, &l.uid, &l.selectedAt, &l.size} }

// page chooses a page by a query of listedColumns that asks for one row more than its limit.
func (s *store) page(ctx context.Context, limit int, query string, args []any) (listing, error) {
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), query, args, (*listed).places)
	return listing{s, rows[:min(len(rows), limit)], len(rows) > limit}, errs.Doing("choose material requests", err)
}

// requestsPage chooses a page of what the filter chooses.
func (s *store) requestsPage(ctx context.Context, filter Filter, behind int64, limit int) (listing, error) {
	query, args := newest(listedColumns, filter, behind, limit+1)
	return s.page(ctx, limit, query, args)
}

// ordersPage chooses a page of all suppliers' requests with a selected estimate, the latest selection first. A
// selection is final, so no row ever moves within this list.
func (s *store) ordersPage(ctx context.Context, selectedAt, behind int64, limit int) (listing, error) {
	return s.page(ctx, limit, `SELECT `+listedColumns+` FROM material_requests
		WHERE selected_at IS NOT NULL AND (selected_at, uid) < ($1, $2) ORDER BY selected_at DESC, uid DESC LIMIT $3`,
		[]any{selectedAt, behind, limit + 1})
}

// next returns the cursor of the next page, which behind makes of the last row; empty: that was all.
func (l listing) next(behind func(last listed) string) string {
	if !l.more {
		return ""
	}
	return behind(l.rows[len(l.rows)-1])
}

// parts returns the page's rows in parts of about a mebibyte, and the bytes of each.
func (l listing) parts() (parts [][]listed, sizes []int64) {
	for rest := l.rows; len(rest) > 0; {
		n, size := 1, rest[0].size
		for n < len(rest) && size+rest[n].size <= part {
			size += rest[n].size
			n++
		}
		parts, sizes = append(parts, rest[:n]), append(sizes, size)
		rest = rest[n:]
	}
	return parts, sizes
}

// records reads the rows in their order. A request that is gone meanwhile is left out.
func (s *store) records(ctx context.Context, wanted []listed) ([]Record, error) {
	keys := lists.Of(wanted, func(w listed) requestKey { return w.requestKey })
	rows, err := queryRequests(ctx, s, s.db.ReaderSQL(ctx), keys, `*`, false,
		`SELECT `+columns(s.events.BodyOf, s.db.Shared(`r.supplier_id`, `$1`))+` FROM %s`, (*requestRow).places)
	if err != nil {
		return nil, fmt.Errorf("read material requests: %w", err)
	}
	found := lists.By(rows, func(r requestRow) requestKey { return requestKey{r.SupplierID, r.ID} })
	records := make([]Record, 0, len(wanted))
	for _, key := range keys {
		row, there := found[key]
		if !there {
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

// Overview is a request in an operator's list.
type Overview struct {
	SupplierID string    `json:"supplier_id"`
	ID         int64     `json:"id"`
	UID        int64     `json:"-"`
	Status     Status    `json:"status"`
	ShopCode   string    `json:"shop_code"`
	Round      int64     `json:"round"`
	Failure    *string   `json:"failure"` // nil unless it is failed
	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
}

// RoundOverview is one round of a request.
type RoundOverview struct {
	Number    int64     `json:"number"`
	Status    Status    `json:"status"`  // as it is, or how the round ended
	Failure   *string   `json:"failure"` // nil unless it is failed
	CreatedAt time.Time `json:"created_at"`
}

// Filter chooses requests; a zero field chooses all.
type Filter struct {
	SupplierID string
	Status     Status
}
