package supplierauth

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
)

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
	return a, errs.Doing("read the supplier's keys and sessions", err)
}
