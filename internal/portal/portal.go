// Package portal is the suppliers' page: what their API shows and does, in a browser. It has sessions' cookies, pages
// and words, and no rule of its own: every answer and every refusal comes from the same methods as the API's.
package portal

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/receivers"
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

// Requests are a supplier's material requests.
type Requests interface {
	List(ctx context.Context, filter materials.Filter, query httpapi.ListQuery) (page []materials.Overview, next string,
		err error)
	FindWithin(ctx context.Context, supplierID string, id int64, fits func(size int64) bool) (materials.Record, error)
	Choose(ctx context.Context, supplierID string, id int64, estimateID string) (time.Time, error)
	Estimate(ctx context.Context, supplierID string, id int64) error
}

// Deliveries are what is sent to a supplier's own receiver.
type Deliveries interface {
	List(ctx context.Context, supplierID string, filter deliveries.SentFilter, query httpapi.ListQuery) (
		items []deliveries.Sent, next string, err error)
	Waiting(ctx context.Context, supplierID string) (int64, error)
	Show(ctx context.Context, supplierID, id string) (deliveries.SentDetail, error)
	Redeliver(ctx context.Context, supplierID, id string) error
	Recover(ctx context.Context, supplierID string, filter deliveries.SentFilter) (int64, error)
	History(ctx context.Context, supplierID string) (deliveries.History, error)
}

// Receiver is where a supplier takes its deliveries.
type Receiver interface {
	Receiver(ctx context.Context, supplierID string) (receivers.ReceiverView, error)
	SetURL(ctx context.Context, supplierID, url string) error
	RotateSecret(ctx context.Context, supplierID string, overlap time.Duration) (string, error)
	Pause(ctx context.Context, supplierID string) error
	Resume(ctx context.Context, supplierID string) error
	Test(ctx context.Context, supplierID string) (receivers.TestResult, error)
	Events() ([]receivers.EventType, error)
}
