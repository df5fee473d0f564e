// Package portal is the suppliers' page: what their API shows and does, in a browser. It has sessions' cookies, pages
// and words, and no rule of its own: every answer and every refusal comes from the same methods as the API's.
package portal

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

// Sessions are the suppliers' links and browser sessions.
type Sessions interface {
	NewPortalLink(ctx context.Context, supplierID string, secure bool) (token string, expires time.Time, err error)
	OpenPortal(ctx context.Context, link, former string) (supplierauth.PortalSession, error)
	PortalLinkOwner(ctx context.Context, link string) (supplierID string, err error)
	PortalPrincipal(ctx context.Context, token string) (caller.Principal, error)
	ClosePortal(ctx context.Context, token string) error
}
