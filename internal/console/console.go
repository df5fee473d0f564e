// Package console is the operator's view of the service in a browser, and the same as JSON. It has no rule of its own:
// its pages and actions are the other packages' services. A page's data is read once in two seconds, however many look
// at it.
package console

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/figures"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/tracker"
	"github.com/supplyhub/supplyhub/internal/web"
)

// Base is the path of the first page.
const Base = "/console"

//go:embed pages
var pages embed.FS

// Requests are the material requests.
type Requests interface {
	Overviews(ctx context.Context, filter materials.Filter, behind int64, limit int) (
		page []materials.Overview, next int64, err error)
	OfID(ctx context.Context, id int64, limit int) ([]materials.Overview, error)
	Show(ctx context.Context, supplierID string, id int64) (
		materials.Record, []materials.RoundOverview, round.Round, error)
	Reopen(ctx context.Context, supplierID string, id int64) error
	CountFailed(ctx context.Context, supplierID string, most int) (int64, error)
	ReopenFailed(ctx context.Context, supplierID string, until time.Time, limit int) (n int64, more bool, err error)
}

// Deliveries are the webhook deliveries and the receivers that they go to.
type Deliveries interface {
	List(ctx context.Context, filter deliveries.Filter, behind deliveries.Key, limit int) (
		page []deliveries.Delivery, next deliveries.Key, err error)
	Of(ctx context.Context, latest round.Round) ([]deliveries.Delivery, error)
	Show(ctx context.Context, id string) (*deliveries.Detail, error)
	Traced(ctx context.Context, traceID string) ([]string, error)
	Redeliver(ctx context.Context, ids ...string) (int64, error)
	CountLost(ctx context.Context, filter deliveries.Filter, most int) (int64, error)
	RedeliverLost(ctx context.Context, filter deliveries.Filter, until time.Time, limit int) (
		n int64, more bool, err error)
	ReceiverStates(ctx context.Context, suppliers []string) (map[string]receivers.ReceiverState, error)
	Count(ctx context.Context, of map[string]*receivers.Condition, most int) error
	IllStates(ctx context.Context) (map[string]receivers.ReceiverState, error)
	Pause(ctx context.Context, supplierID, by string) error
	Resume(ctx context.Context, supplierID, by string) error
}

// Suppliers are the suppliers.
type Suppliers interface {
	SupplierPage(ctx context.Context, after string, limit int) ([]supplierauth.Supplier, string, error)
	SuppliersOf(ctx context.Context, ids []string) ([]supplierauth.Supplier, error)
	SearchSuppliers(ctx context.Context, text string, limit int) ([]supplierauth.Supplier, error)
	Names(ctx context.Context, ids []string) (map[string]string, error)
	AccessOf(ctx context.Context, supplierID string) (supplierauth.Access, error)
	Activate(ctx context.Context, id string) error
	Deactivate(ctx context.Context, id string) error
	CreateSupplier(ctx context.Context, n supplierauth.Supplier) (supplierauth.Created, error)
	UpdateSupplier(ctx context.Context, id string, patch supplierauth.SupplierPatch) (supplierauth.Supplier, error)
	RotateAPIKey(ctx context.Context, id string, overlap time.Duration) (string, error)
	RotateWebhookSecret(ctx context.Context, id string, overlap time.Duration) (string, error)
}

// Sessions are those of browsers, each known by a text.
type Sessions interface {
	OpenConsole(ctx context.Context, text string, ttl time.Duration) error
	InConsole(ctx context.Context, text string) (bool, error)
	ClosePortal(ctx context.Context, text string) error
}

// Rates are the rate card.
type Rates interface {
	List(ctx context.Context) ([]estimates.Service, error)
	Today() string
	Set(ctx context.Context, s estimates.Service) error
	Remove(ctx context.Context, name string) error
}

// Settings are the scoreboard's.
type Settings interface {
	ListSettings(ctx context.Context) ([]scoreboard.Setting, error)
	SetSetting(ctx context.Context, key, value string) (scoreboard.Setting, error)
	UnsetSetting(ctx context.Context, key string) (scoreboard.Setting, error)
}

// Trackers are the clients of the tracker listings.
type Trackers interface {
	ListClients(ctx context.Context) ([]tracker.Client, error)
	Faults() map[string]error
}

// Scores is the scoreboard's quota and what its providers were asked.
type Scores interface {
	Remaining(ctx context.Context) (map[string]int64, error)
	Providers() (map[string]map[string]int64, error)
}

// Live is what the processes count.
type Live interface {
	Hour() []figures.Point
	Newest() figures.Counts
	Processes(ctx context.Context) ([]figures.Process, error)
}

// Deps is what the console is built from.
type Deps struct {
	Requests   Requests
	Deliveries Deliveries
	Suppliers  Suppliers
	Sessions   Sessions
	Trackers   Trackers
	Scores     Scores
	Settings   Settings
	Rates      Rates
	Live       Live
	// PortalLink makes a link that opens the portal for a supplier, once and until it expires.
	PortalLink func(ctx context.Context, supplierID string) (address string, expires time.Time, err error)
	Token      string // OPERATOR_TOKEN; empty: actions are off
	Now        func() time.Time
	Log        *slog.Logger
	Cursors    cursor.Sealer
}

// Service serves the pages, whose data views reads, and the actions.
type Service struct {
	deps    Deps
	site    *web.Site
	cache   *cache
	guesses guesses
}

// New reads the pages.
func New(deps Deps) (*Service, error) {
	files, err := fs.Sub(pages, "pages")
	if err != nil {
		return nil, err
	}
	site, err := web.New(web.Config{
		Base: Base, Title: "Operator's console", SignOut: "/sign-out", Pages: files, Functions: functions(), Now: deps.Now,
		Navigation: []web.Link{
			{Text: "Overview", Path: ""}, {Text: "Requests", Path: "/requests"}, {Text: "Deliveries", Path: "/deliveries"},
			{Text: "Receivers", Path: "/receivers"}, {Text: "Suppliers", Path: "/suppliers"},
			{Text: "Rate card", Path: "/rates"}, {Text: "Scoreboard", Path: "/scoreboard"},
			{Text: "Trackers", Path: "/trackers"},
		},
	})
	if err != nil {
		return nil, err
	}
	return &Service{deps: deps, site: site, cache: newCache(time.Now), guesses: guesses{of: map[string]*guesser{}}}, nil
}
