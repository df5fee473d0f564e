// Package portal has the suppliers' pages: what their API shows and does, in a browser. It has the cookies of sessions,
// the pages and their words, and no rule of its own: every answer and every refusal comes from the methods that the API
// calls.
package portal

import (
	"context"
	"embed"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/web"
)

//go:embed pages
var pages embed.FS

// Deps is what the package is built from.
type Deps struct {
	Sessions   Sessions
	Requests   *materials.Service
	Deliveries *deliveries.SelfService            // what is sent to a supplier's own receiver
	Receiver   *receivers.SelfService             // where a supplier takes its deliveries
	Bearer     func(scope string) gin.HandlerFunc // authenticates by access token
	PublicURL  string                             // PUBLIC_URL; empty: the address that a call came in at
	Now        func() time.Time
}

// Service implements the pages and the sessions that they need.
type Service struct {
	deps Deps
	site *web.Site
}

// New reads the pages.
func New(deps Deps) (*Service, error) {
	site, err := web.New(web.Config{
		Base: Base, Title: "Supplier portal", SignOut: "/sign-out", Pages: pages, Now: deps.Now,
	})
	if err != nil {
		return nil, err
	}
	return &Service{deps: deps, site: site}, nil
}

// Sessions are the suppliers' links and browser sessions.
type Sessions interface {
	NewPortalLink(ctx context.Context, supplierID string, secure bool) (token string, expires time.Time, err error)
	OpenPortal(ctx context.Context, link, former string) (supplierauth.PortalSession, error)
	PortalLinkOwner(ctx context.Context, link string) (supplierID string, err error)
	PortalPrincipal(ctx context.Context, token string) (caller.Principal, error)
	ClosePortal(ctx context.Context, token string) error
}
