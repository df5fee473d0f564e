package materials

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const recentColumns = `supplier_id, id, status, shop_code, round, failure, created_at, updated_at`

// newestBySupplier is when each supplier's newest request up to a time was made, by one step through the index each.
const newestBySupplier = `WITH RECURSIVE known(id) AS (
		SELECT (SELECT supplier_id FROM material_requests ORDER BY supplier_id LIMIT 1)
		UNION ALL
		SELECT (SELECT r.supplier_id FROM material_requests r WHERE r.supplier_id > known.id ORDER BY r.supplier_id LIMIT 1)
		FROM known WHERE known.id IS NOT NULL)
	SELECT id AS supplier_id, (SELECT r.created_at FROM material_requests r WHERE r.supplier_id = known.id AND r.created_at > 0 AND r.created_at <= ?
		ORDER BY r.created_at DESC LIMIT 1) AS newest FROM known WHERE id IS NOT NULL`

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

func (o Overview) place() string {
	return fmt.Sprintf("%d~%s~%d", o.CreatedAt.UnixMicro(), o.SupplierID, o.ID)
}

// Recent returns one page of requests, newest first, by an index and however many there are. The filter's status may be
// Failed or empty. next leads on from there; empty: that was all.
func (s *Service) Recent(ctx context.Context, filter Filter, after string, limit int) (page []Overview, next string,
	err error) {
	from := placeOf(after)
	switch {
	case filter.Status == Failed:
		page, err = s.store.recentFailed(ctx, filter.SupplierID, from, limit)
	case filter.SupplierID != "":
		page, err = s.store.recentOf(ctx, []string{filter.SupplierID}, from, limit)
	default:
		page, err = s.store.recentAll(ctx, from, limit)
	}
	if err != nil || len(page) < limit {
		return page, "", err
	}
	page = page[:limit]
	return page, page[limit-1].place(), nil
}

// recentAll asks only the suppliers whose newest request can be on the page.
func (s *store) recentAll(ctx context.Context, from place, limit int) ([]Overview, error) {
	var all []struct {
		SupplierID string
		Newest     *int64
	}
	if err := s.db.Reader(ctx).Raw(newestBySupplier, from.at).Scan(&all).Error; err != nil {
		return nil, fmt.Errorf("list material requests: %w", err)
	}
	slices.SortFunc(all, func(a, b struct {
		SupplierID string
		Newest     *int64
	}) int {
		return cmp.Compare(zeroOr(b.Newest), zeroOr(a.Newest))
	})
	var ids []string
	for _, s := range all {
		if s.Newest != nil && (len(ids) < limit || *s.Newest == from.at) {
			ids = append(ids, s.SupplierID)
		}
	}
	return s.recentOf(ctx, ids, from, limit)
}

func zeroOr(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// recentOf merges the newest requests of the suppliers behind a place.
func (s *store) recentOf(ctx context.Context, suppliers []string, from place, limit int) ([]Overview, error) {
	const unionOf = 100 // selects in one statement
	var page []Overview
	for chunk := range slices.Chunk(suppliers, unionOf) {
		var parts []string
		var args []any
		for _, id := range chunk {
			tie := from.id
			if order := cmp.Compare(id, from.supplierID); order != 0 && from.supplierID != "" {
				tie = map[int]int64{-1: math.MinInt64, 1: math.MaxInt64}[order]
			}
			parts = append(parts, `SELECT * FROM (SELECT `+recentColumns+` FROM material_requests WHERE supplier_id = ? AND `+
				byAge+
				` AND (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?) AS newest`)
			args = append(args, id, from.at, tie, limit)
		}
		found, err := s.overviews(ctx, strings.Join(parts, " UNION ALL "), args...)
		if err != nil {
			return nil, err
		}
		page = append(page, found...)
	}
	slices.SortFunc(page, func(a, b Overview) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.SupplierID, b.SupplierID), cmp.Compare(b.ID, a.ID))
	})
	return page[:min(limit, len(page))], nil
}

// recentFailed goes by the index of what failed.
func (s *store) recentFailed(ctx context.Context, supplierID string, from place, limit int) ([]Overview, error) {
	query := `SELECT ` + recentColumns +
		` FROM material_requests WHERE failure <> '' AND status = 'failed' AND created_at <= ?
		AND (created_at < ? OR supplier_id > ? OR (supplier_id = ? AND id < ?))`
	args := []any{from.at, from.at, from.supplierID, from.supplierID, from.id}
	if supplierID != "" {
		query, args = query+` AND supplier_id = ?`, append(args, supplierID)
	}
	return s.overviews(ctx, query+` ORDER BY created_at DESC, supplier_id, id DESC LIMIT ?`, append(args, limit)...)
}

func (s *store) overviews(ctx context.Context, query string, args ...any) ([]Overview, error) {
	var rows []overviewRow
	if err := s.db.Reader(ctx).Raw(query, args...).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("list material requests: %w", err)
	}
	list := make([]Overview, len(rows))
	for i, row := range rows {
		list[i] = row.overview()
	}
	return list, nil
}

// FindAny returns the suppliers' requests of an id; every supplier numbers its own.
func (s *Service) FindAny(ctx context.Context, suppliers []string, id int64) ([]Overview, error) {
	return s.store.overviews(ctx, `SELECT `+recentColumns+
		` FROM material_requests WHERE supplier_id IN ? AND id = ? ORDER BY supplier_id LIMIT 50`, suppliers, id)
}
