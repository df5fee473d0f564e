package supplierauth

import (
	"context"
	"slices"
	"time"
)

// Principal is who is calling: what a valid access token says. Its Scopes are shared between requests; do not change
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

// WithPrincipal puts the caller into the context.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom is the caller that Bearer put into the context, the zero Principal when there is none.
func PrincipalFrom(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}
