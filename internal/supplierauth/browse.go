package supplierauth

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
)

// SupplierPage returns the suppliers behind a place in the list of all, oldest first. next leads on from there; empty:
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

// mostLooked bounds how many of a supplier's sessions, the newest, are looked at to count those that live.
const mostLooked = 5000

// Access is what opens the service to a supplier: its keys and sessions, by their counts and ages. It holds no secret.
type Access struct {
	Keys     []Key                   `json:"api_keys"`        // that work now, the newest first
	Secrets  []caller.SecretValidity `json:"webhook_secrets"` // that sign now, the newest first
	Sessions Sessions                `json:"sessions"`
	Portal   int64                   `json:"portal_sessions"` // browsers that are signed in to the portal
}

// Key is an API key as the operator sees it.
type Key struct {
	Last4     string     `json:"last4"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"` // nil: until it is rotated
}

// Sessions are a supplier's live sessions of the API.
type Sessions struct {
	Count    int64      `json:"count"`
	Oldest   *time.Time `json:"oldest_at"`    // when the oldest began; nil: there is none
	LastUsed *time.Time `json:"last_used_at"` // when one of them was begun or refreshed last
}

// AccessOf returns what opens the service to the supplier.
func (s *Service) AccessOf(ctx context.Context, supplierID string) (a Access, err error) {
	now := s.now()
	if a.Keys, err = s.store.keys(ctx, supplierID, now); err == nil {
		a.Secrets, err = s.store.secrets(ctx, supplierID, now)
	}
	if err == nil {
		a.Sessions, a.Portal, err = s.store.sessionsOf(ctx, supplierID, now)
	}
	if err != nil {
		return Access{}, fmt.Errorf("read the supplier's keys and sessions: %w", err)
	}
	return a, nil
}
