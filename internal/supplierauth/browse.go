package supplierauth

import (
	"context"
	"fmt"
	"strings"
)

// SupplierPage returns the suppliers behind a place in the list of all, oldest first. next goes on from there; empty:
// that was all.
func (s *Service) SupplierPage(ctx context.Context, after string, limit int) (page []Supplier, next string, err error) {
	var created int64
	var id string
	if n, err := fmt.Sscanf(strings.Replace(after, "~", " ", 1), "%d %s", &created, &id); err != nil || n != 2 {
		created, id = 0, ""
	}
	page, err = s.store.suppliersBehind(ctx, created, id, limit)
	if err != nil {
		return nil, "", fmt.Errorf("list suppliers: %w", err)
	}
	if len(page) < limit {
		return page, "", nil
	}
	last := page[limit-1]
	return page, fmt.Sprintf("%d~%s", last.CreatedAt.UnixMicro(), last.ID), nil
}

// SuppliersOf returns the suppliers of the ids, in no order; unknown ones are absent.
func (s *Service) SuppliersOf(ctx context.Context, ids []string) ([]Supplier, error) {
	found, err := s.store.suppliersOf(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read suppliers: %w", err)
	}
	return found, nil
}

// SearchSuppliers returns the suppliers whose id is the text or whose name has it, in whichever case, at most limit of
// them.
func (s *Service) SearchSuppliers(ctx context.Context, text string, limit int) ([]Supplier, error) {
	text = strings.ToLower(text)
	var ids []string
	err := s.store.eachName(ctx, func(id, name string) bool {
		if id == text || strings.Contains(strings.ToLower(name), text) {
			ids = append(ids, id)
		}
		return len(ids) < limit
	})
	if err != nil {
		return nil, fmt.Errorf("search suppliers: %w", err)
	}
	return s.SuppliersOf(ctx, ids)
}
