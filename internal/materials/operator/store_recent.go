package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

const (
	recentColumns = `supplier_id, id, status, shop_code, round, failure, created_at, updated_at`

	// looked bounds what one page goes through when only some of the requests are wanted.
	looked = 5000

	// recentOrder and behindPlace are the order of a list by age and what comes behind a place in it.
	recentOrder = ` ORDER BY ` + newestFirst + ` LIMIT ?`
	behindPlace = ` AND created_at <= ? AND (created_at < ? OR supplier_id > ? OR (supplier_id = ? AND id < ?))`

	// newestSuppliers are those whose requests can be on a page: a few steps through the index for each supplier, whose
	// newest request takes the place of the verb.
	newestSuppliers = `SELECT s.id, (%s) AS newest FROM suppliers s ORDER BY newest DESC NULLS LAST, id LIMIT ?`

	// behindIn are a supplier's requests behind a place, whose supplier's condition and tie take the place of the verbs.
	behindIn = ` FROM material_requests r WHERE r.supplier_id = %s AND r.` + byAge +
		` AND r.created_at >= ? AND (r.created_at, r.id) < (?, %s) AND r.status `

	// tieOf is the id below which a supplier's requests of the place's very time come behind it.
	tieOf = `CASE WHEN s.id > ? THEN CAST(? AS bigint) WHEN s.id = ? THEN CAST(? AS bigint) ELSE CAST(? AS bigint) END`
)

// columnsOfR are recentColumns of the table named r.
var columnsOfR = `r.` + strings.ReplaceAll(recentColumns, `, `, `, r.`)

// place is where a page of requests ended.
type place struct {
	at         int64
	supplierID string
	id         int64
}

func placeOf(text string) place {
	parts := strings.Split(text, "~")
	if len(parts) == 3 {
		at, errAt := strconv.ParseInt(parts[0], 10, 64)
		id, errID := strconv.ParseInt(parts[2], 10, 64)
		if errAt == nil && errID == nil {
			return place{at, parts[1], id}
		}
	}
	return place{at: math.MaxInt64, id: math.MaxInt64}
}

func (p place) String() string { return fmt.Sprintf("%d~%s~%d", p.at, p.supplierID, p.id) }

func (p place) behind() []any { return []any{p.at, p.at, p.supplierID, p.supplierID, p.id} }

// tie returns the id below which the supplier's requests of the place's very time come behind it.
func (p place) tie(supplierID string) int64 {
	switch {
	case p.supplierID == "" || supplierID > p.supplierID:
		return math.MaxInt64
	case supplierID == p.supplierID:
		return p.id
	default:
		return math.MinInt64
	}
}

func placeAfter(o materials.Overview) string {
	return place{o.CreatedAt.UnixMicro(), o.SupplierID, o.ID}.String()
}

// Recent returns one page of requests by an index and however many there are: the newest first, Enqueued ones as they
// are queued. The filter's status may be Enqueued (what is not handed to the sender yet), Failed or empty. next leads
// on from there; empty: that was all. A page may be short, or empty with a next, when it looked through many that are
// not wanted.
func (s *Service) Recent(ctx context.Context, filter materials.Filter, after string, limit int) (
	page []materials.Overview, next string, err error) {
	switch {
	case filter.Status == materials.Enqueued:
		return s.store.recentEnqueued(ctx, filter.SupplierID, after, limit)
	case filter.Status == materials.Failed && filter.SupplierID != "":
		page, err = s.store.recentFailedOf(ctx, filter.SupplierID, placeOf(after), limit)
	case filter.Status == materials.Failed:
		page, err = s.store.overviews(ctx, `SELECT `+recentColumns+failedOnes+behindPlace+recentOrder,
			append(placeOf(after).behind(), limit)...)
	case filter.SupplierID != "":
		page, err = s.store.recentOfOne(ctx, filter.SupplierID, placeOf(after), limit)
	default:
		page, err = s.recentAll(ctx, placeOf(after), limit)
	}
	if err != nil || len(page) < limit {
		return page, "", err
	}
	return page, placeAfter(page[limit-1]), nil
}

// recentAll guesses how far back the page goes, and goes through all when that was too short.
func (s *Service) recentAll(ctx context.Context, from place, limit int) (page []materials.Overview, err error) {
	for since := s.reach.since(from, s.deps.Now()); ; since = 0 {
		page, err = s.store.recentSince(ctx, from, since, limit)
		if err != nil || len(page) == limit || since == 0 {
			break
		}
	}
	if err == nil && len(page) == limit {
		s.reach.saw(from, page)
	}
	return page, err
}

// newestEach reads when each supplier's newest request behind a place was made. Few are made in the time that a page
// spans; where that is unknown, each status is asked for its newest.
func newestEach(from place, since int64, limit int) (query string, args []any) {
	args = []any{since, from.at, from.supplierID, int64(math.MaxInt64), from.supplierID, from.id, int64(math.MinInt64)}
	behind := fmt.Sprintf(behindIn, `s.id`, tieOf)
	if since > 0 {
		return fmt.Sprintf(newestSuppliers, `SELECT max(r.created_at)`+behind+anyStatus), append(args, limit)
	}
	newest := ofEach(func(status string) string {
		return `SELECT (SELECT r.created_at` + behind + status + ` ORDER BY r.created_at DESC LIMIT 1) AS at`
	})
	return fmt.Sprintf(newestSuppliers, `SELECT max(at) FROM (`+newest+`) AS each_status`),
		append(slices.Repeat(args, len(materials.Statuses)), limit)
}

// recentSince asks only the suppliers whose requests can be on the page, one for each of its rows at most.
func (s *store) recentSince(ctx context.Context, from place, since int64, limit int) ([]materials.Overview, error) {
	var found []struct {
		ID     string
		Newest *int64 // nil: the supplier has none behind the place
	}
	query, args := newestEach(from, since, limit)
	if s.db.Spread() {
		query, args = newestSpread(from, since, limit)
	}
	err := s.db.Reader(ctx).Raw(query, args...).Scan(&found).Error
	if err != nil {
		return nil, fmt.Errorf("list suppliers by their newest material request: %w", err)
	}
	var suppliers []string
	for _, supplier := range found {
		if supplier.Newest != nil {
			suppliers = append(suppliers, supplier.ID)
		}
	}
	if len(suppliers) == 0 {
		return []materials.Overview{}, nil
	}
	if len(suppliers) == limit { // each has one at least as new as this
		since = *found[limit-1].Newest
	}
	return s.recentOf(ctx, suppliers, from, since, limit)
}

// recentOfOne looks as far back as the page goes, by the counts. Many of the place's very time may be before it.
func (s *store) recentOfOne(ctx context.Context, supplierID string, from place, limit int) ([]materials.Overview,
	error) {
	until := min(from.at, math.MaxInt64-1) + 1
	ends, err := s.db.Place(ctx, materials.Lists()[0], database.Series{Owner: supplierID}, database.Range{Until: until},
		limit, 0)
	if err != nil {
		return nil, err
	}
	for since := ends.Since; ; since = 0 {
		page, err := s.recentOf(ctx, []string{supplierID}, from, since, limit)
		if err != nil || len(page) == limit || since == 0 {
			return page, err
		}
	}
}

// recentOf merges the newest requests of the suppliers behind a place: their keys by the index, then the page's rows.
func (s *store) recentOf(ctx context.Context, suppliers []string, from place, since int64, limit int) (
	[]materials.Overview, error) {
	keys, args := s.newestOf(suppliers, from, since, limit)
	return s.overviews(ctx, `SELECT `+columnsOfR+` FROM (SELECT * FROM (`+keys+`) AS merged`+recentOrder+`) AS page
		JOIN material_requests r ON r.supplier_id = page.supplier_id AND r.id = page.id
		ORDER BY r.created_at DESC, r.supplier_id, r.id DESC`, append(args, limit)...)
}

// newestOf selects the keys of so many requests of each supplier at most. PostgreSQL, which plans a part a supplier
// longer than it runs it, gets the suppliers as a table.
func (s *store) newestOf(suppliers []string, from place, since int64, limit int) (query string, args []any) {
	if s.db.Engine() == database.Postgres && !s.db.Spread() {
		ties := make(map[string]int64, len(suppliers))
		for _, id := range suppliers {
			ties[id] = from.tie(id)
		}
		table, _ := json.Marshal(ties) // texts and numbers: it never fails
		one := []any{since, from.at, limit}
		return `SELECT n.* FROM json_each_text(CAST(? AS json)) AS k CROSS JOIN LATERAL (` +
				newestOne(`k.key`, `CAST(k.value AS bigint)`) + `) AS n`,
			append([]any{string(table)}, slices.Repeat(one, len(materials.Statuses))...)
	}
	parts := make([]string, len(suppliers))
	for i, id := range suppliers {
		parts[i] = newestOne(`?`, `?`)
		args = append(args, slices.Repeat([]any{id, since, from.at, from.tie(id), limit}, len(materials.Statuses))...)
	}
	return strings.Join(parts, ` UNION ALL `), args
}

// newestOne selects the keys of so many requests of each status of a supplier.
func newestOne(supplier, tie string) string {
	return ofEach(func(status string) string {
		return `SELECT r.created_at, r.supplier_id, r.id` + fmt.Sprintf(behindIn, supplier, tie) + status +
			` ORDER BY r.created_at DESC, r.id DESC LIMIT ?`
	})
}

// recentFailedOf goes by the index of the supplier's requests of the status.
func (s *store) recentFailedOf(ctx context.Context, supplierID string, from place, limit int) ([]materials.Overview,
	error) {
	return s.overviews(ctx, `SELECT `+recentColumns+` FROM material_requests
		WHERE supplier_id = ? AND status = 'failed' AND `+byAge+` AND created_at <= ? AND (created_at, id) < (?, ?)
		ORDER BY created_at DESC, id DESC LIMIT ?`, supplierID, from.at, from.at, from.tie(supplierID), limit)
}

// recentEnqueued goes by the index of the queue and then by the one of what is tried again later.
func (s *store) recentEnqueued(ctx context.Context, supplierID, after string, limit int) (
	[]materials.Overview, string, error) {
	const queued, again = "ticket", "retry_at"
	column, behind, found := strings.Cut(after, "~")
	if column != again {
		column = queued
	}
	from := place{at: math.MinInt64}
	if found && behind != "" {
		from = placeOf(behind)
	}
	page, last, err := s.waiting(ctx, column, supplierID, from, limit)
	switch {
	case err != nil:
		return nil, "", err
	case last != nil:
		return page, column + "~" + last.String(), nil
	case column == queued:
		return page, again + "~", nil
	default:
		return page, "", nil
	}
}

// waiting returns a page by the column and where it ended; nil: nothing is left.
func (s *store) waiting(ctx context.Context, column, supplierID string, from place, limit int) (
	[]materials.Overview, *place, error) {
	window := `SELECT ` + recentColumns + `, ` + column + ` AS place FROM material_requests
		WHERE ` + column + ` IS NOT NULL AND ` + column + ` >= ? AND (` + column + `, supplier_id, id) > (?, ?, ?)
		ORDER BY ` + column + `, supplier_id, id LIMIT ?`
	args := []any{from.at, from.at, from.supplierID, from.id}
	query, among := window, limit
	if supplierID != "" {
		query = `SELECT * FROM (` + window + `) AS w WHERE supplier_id = ? ORDER BY place, supplier_id, id LIMIT ?`
		among = looked
	}
	page, last, err := s.placed(ctx, query, append(args, among, supplierID, limit)[:strings.Count(query, "?")]...)
	if err != nil || len(page) == limit || supplierID == "" {
		if len(page) < limit {
			last = nil
		}
		return page, last, err
	}
	_, last, err = s.placed(ctx, window+` OFFSET ?`, append(args, 1, looked-1)...)
	return page, last, err
}

// placed reads requests with the column that they are ordered by, and the place of the last; nil: there is none.
func (s *store) placed(ctx context.Context, query string, args ...any) ([]materials.Overview, *place, error) {
	var rows []struct {
		Row   overviewRow `gorm:"embedded"`
		Place int64
	}
	if err := s.db.Reader(ctx).Raw(query, args...).Scan(&rows).Error; err != nil {
		return nil, nil, fmt.Errorf("list waiting material requests: %w", err)
	}
	page := make([]materials.Overview, len(rows))
	for i, row := range rows {
		page[i] = row.Row.overview()
	}
	if len(rows) == 0 {
		return page, nil, nil
	}
	last := rows[len(rows)-1]
	return page, &place{last.Place, last.Row.SupplierID, last.Row.ID}, nil
}

func (s *store) overviews(ctx context.Context, query string, args ...any) ([]materials.Overview, error) {
	var rows []overviewRow
	if err := s.db.Reader(ctx).Raw(query, args...).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("list material requests: %w", err)
	}
	list := make([]materials.Overview, len(rows))
	for i, row := range rows {
		list[i] = row.overview()
	}
	return list, nil
}

// FindAny returns the requests of an id; every supplier numbers its own.
func (s *Service) FindAny(ctx context.Context, id int64) ([]materials.Overview, error) {
	return s.store.overviews(ctx, `SELECT `+columnsOfR+` FROM suppliers s
		JOIN material_requests r ON r.supplier_id = s.id AND r.id = ? ORDER BY s.id LIMIT 50`, id)
}

// FindEnqueued returns those of the requests that are enqueued, in the order in which they are given.
func (s *Service) FindEnqueued(ctx context.Context, rounds []round.Round) ([]materials.Overview, error) {
	found, err := materials.QueryRounds(ctx, s.store.db, s.store.db.ReaderSQL(ctx), rounds, recentColumns,
		`SELECT `+columnsOfR+` FROM %s WHERE r.status = 'enqueued'`, func(r *overviewRow) []any {
			return []any{&r.SupplierID, &r.ID, &r.Status, &r.ShopCode, &r.Round, &r.Failure, &r.CreatedAt, &r.UpdatedAt}
		})
	if err != nil {
		return nil, fmt.Errorf("list enqueued material requests: %w", err)
	}
	rows := make(map[requestKey]overviewRow, len(found))
	for _, row := range found {
		rows[requestKey{row.SupplierID, row.ID}] = row
	}
	page := []materials.Overview{}
	for _, r := range rounds {
		if row, enqueued := rows[requestKey{r.SupplierID, r.RequestID}]; enqueued {
			page = append(page, row.overview())
		}
	}
	return page, nil
}

const failedOnes = ` FROM material_requests WHERE failure <> '' AND status = 'failed'`

func ofSupplier(supplierID string, args ...any) (condition string, all []any) {
	if supplierID == "" {
		return "", args
	}
	return ` AND supplier_id = ?`, append(args, supplierID)
}

func (s *store) countFailed(ctx context.Context, supplierID string, most int) (n int64, err error) {
	condition, args := ofSupplier(supplierID)
	err = s.db.Reader(ctx).Raw(`SELECT count(*) FROM (SELECT 1`+failedOnes+condition+` LIMIT ?) AS failed`,
		append(args, most)...).Scan(&n).Error
	if err != nil {
		return 0, fmt.Errorf("count failed material requests: %w", err)
	}
	return n, nil
}

// failedUntil returns the keys of what had failed by then, the oldest first.
func (s *store) failedUntil(ctx context.Context, supplierID string, until time.Time, limit int) (
	keys []requestKey, err error) {
	condition, args := ofSupplier(supplierID, until.UnixMicro())
	err = s.db.Reader(ctx).Raw(`SELECT supplier_id, id`+failedOnes+` AND updated_at <= ?`+condition+
		` ORDER BY created_at LIMIT ?`, append(args, limit)...).Scan(&keys).Error
	if err != nil {
		return nil, fmt.Errorf("list failed material requests: %w", err)
	}
	return keys, nil
}
