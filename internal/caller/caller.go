// Package caller says who calls, what the caller may do, and where a supplier's receiver is. Package supplierauth finds
// that out. The features read the caller from the context, and the receiver by the supplier's id. The proofs that a
// call to the own endpoint comes from this service are here too.
package caller

import (
	"context"
	"slices"
	"time"
)

// The scopes of access tokens.
const (
	ScopeMaterialRequests = "material-requests"
	ScopeProducts         = "products"
	ScopeWebhooks         = "webhooks"
	ScopeEstimatesWrite   = "estimates:write"
	ScopeOrdersRead       = "orders:read"
)

// Principal is who is calling, as a valid access token says. Its Scopes are shared between requests; do not change
// them.
type Principal struct {
	SupplierID   string
	SupplierName string // as it was when the token was issued
	SessionID    string
	Scopes       []string
	ExpiresAt    time.Time // of the access token
}

// Has reports whether the token carries the scope.
func (p Principal) Has(scope string) bool { return slices.Contains(p.Scopes, scope) }

type principalKey struct{}

// With returns a context that carries the caller.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns the caller of the context, the zero Principal when there is none.
func From(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}
