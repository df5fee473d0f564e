package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

const (
	eachBatch  = 5000        // requests that one statement of each returns at most
	firstSlice = time.Minute // of time; the next ones are as long as a batch takes
)

// each hands the chosen requests over one by one, newest first, at most limit of them; 0: all. It reads slices of time
// by the suppliers' index, so that one statement looks at few more rows than it returns. Requests that are made
// meanwhile are not among them.
func (s *store) each(ctx context.Context, filter materials.Filter, limit int, fn func(materials.Overview) error) error {
	suppliers := []string{filter.SupplierID}
	if filter.SupplierID == "" {
		var err error
		if suppliers, err = s.suppliers(ctx); err != nil {
			return fmt.Errorf("list suppliers with requests: %w", err)
		}
	}
	statuses := materials.Statuses[:]
	if filter.Status != "" {
		statuses = []materials.Status{filter.Status}
	}
	newest, oldest, err := s.bounds(ctx, suppliers, statuses)
	from, width, handed := place{at: newest, id: math.MaxInt64}, firstSlice.Microseconds(), 0
	for err == nil && from.at >= oldest {
		var slice []materials.Overview
		if slice, err = s.slice(ctx, suppliers, statuses, from, from.at-width); err != nil {
			break
		}
		for _, o := range slice {
			if err := fn(o); err != nil {
				return err
			}
			if handed++; handed == limit {
				return nil
			}
		}
		from, width = next(slice, from, width)
	}
	return err
}

// next returns where the slice behind this one begins, and how long it is.
func next(slice []materials.Overview, from place, width int64) (place, int64) {
	if len(slice) == eachBatch { // it was cut
		last := slice[len(slice)-1]
		at := last.CreatedAt.UnixMicro()
		return place{at, last.SupplierID, last.ID}, from.at - at + 1
	}
	from = place{at: from.at - width, id: math.MaxInt64}
	if len(slice) < eachBatch/2 {
		width *= 2
	}
	return from, width
}

// rounds returns the rounds that the requests of an id are in; every supplier numbers its own.
func (s *store) rounds(ctx context.Context, id int64) (rounds []round.Round, err error) {
	rounds, err = database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT r.supplier_id, r.id, r.uid, r.round FROM suppliers s
		JOIN material_requests r ON r.supplier_id = s.id AND r.id = $1`, []any{id}, func(r *round.Round) []any {
		return []any{&r.SupplierID, &r.RequestID, &r.UID, &r.Number}
	})
	if err != nil {
		return nil, fmt.Errorf("list requests of an id: %w", err)
	}
	return rounds, nil
}

// bounds returns when the newest and the oldest request of the suppliers were made.
func (s *store) bounds(ctx context.Context, suppliers []string, statuses []materials.Status) (
	newest, oldest int64, err error) {
	table, arg := s.suppliersTable(suppliers)
	ends := ofThose(statuses, func(status string) string {
		of := ` FROM material_requests r WHERE r.supplier_id = k.supplier AND r.` + byAge + ` AND r.status ` + status + `
			ORDER BY r.created_at `
		return `SELECT (SELECT r.created_at` + of + `DESC LIMIT 1) AS newest, (SELECT r.created_at` + of +
			`LIMIT 1) AS oldest FROM ` + table
	})
	query := `SELECT coalesce(max(newest), -1) AS newest, coalesce(min(oldest), 0) AS oldest
		FROM (` + ends + `) AS each_supplier`
	args := slices.Repeat([]any{arg}, len(statuses))
	if s.db.Spread() {
		query, args = boundsSpread, []any{arg}
	}
	var found struct{ Newest, Oldest int64 }
	err = s.db.Reader(ctx).Raw(query, args...).Scan(&found).Error
	if err != nil {
		return 0, 0, fmt.Errorf("list material requests: %w", err)
	}
	return found.Newest, found.Oldest, nil
}

// slice reads the newest of the suppliers' requests from a place on that were made after the given time.
func (s *store) slice(ctx context.Context, suppliers []string, statuses []materials.Status, from place, since int64) (
	[]materials.Overview, error) {
	table, arg := s.suppliersTable(suppliers)
	const behind = `created_at > ? AND created_at <= ?
		AND (created_at < ? OR supplier_id > ? OR supplier_id = ? AND id < ?)`
	args := []any{since, from.at, from.at, from.supplierID, from.supplierID, from.id}
	quoted := make([]string, len(statuses))
	for i, status := range statuses {
		quoted[i] = `'` + string(status) + `'`
	}
	rows := ` JOIN material_requests ON supplier_id = k.supplier AND ` + byAge + ` AND status IN (` +
		strings.Join(quoted, `, `) + `) AND ` + behind
	if s.db.Engine() == database.Postgres && !s.db.Spread() {
		args = slices.Repeat(args, len(statuses))
		rows = ` CROSS JOIN LATERAL (SELECT * FROM (` + ofThose(statuses, func(status string) string {
			return `SELECT ` + recentColumns + ` FROM material_requests
				WHERE supplier_id = k.supplier AND ` + byAge + ` AND status ` + status + ` AND ` + behind + `
				ORDER BY created_at DESC, id DESC LIMIT ` + fmt.Sprint(eachBatch)
		}) + `) AS each_status ORDER BY created_at DESC, id DESC LIMIT ` + fmt.Sprint(eachBatch) + `) AS r`
	}
	return s.overviews(ctx, `SELECT `+recentColumns+` FROM `+table+rows+` ORDER BY `+newestFirst+` LIMIT ?`,
		append(append([]any{arg}, args...), eachBatch)...)
}

// suppliersTable returns a table k of the suppliers, and the parameter that it takes.
func (s *store) suppliersTable(ids []string) (table string, arg any) {
	encoded, _ := json.Marshal(ids) // texts: it never fails
	if s.db.Engine() == database.Postgres {
		return `json_array_elements_text(CAST(? AS json)) AS k(supplier)`, string(encoded)
	}
	return `(SELECT value AS supplier FROM json_each(?)) AS k`, string(encoded)
}
