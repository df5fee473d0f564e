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
	"github.com/supplyhub/supplyhub/internal/materials/operator"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/tracker"
	"github.com/supplyhub/supplyhub/internal/web"
)

// Base is the path of the first page.
const Base = "/console"

//go:embed pages
var pages embed.FS

// Deps is what the console shows and acts on.
type Deps struct {
	Requests   *operator.Service
	Deliveries *deliveries.Keeper
	Receivers  *receivers.Registry
	Suppliers  *supplierauth.Service // the browsers' sessions too
	Trackers   *tracker.Service
	Scores     *scoreboard.Service
	Rates      *estimates.RateCard
	Live       *figures.Recorder // what the processes count
	// Remaining returns what each requester may still ask the scoreboard today; Providers what its providers were asked
	// by this process, by outcome.
	Remaining func(ctx context.Context) (map[string]int64, error)
	Providers func() (map[string]map[string]int64, error)
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
