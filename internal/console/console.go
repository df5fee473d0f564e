// Package console shows the service to its operator, in a browser or as JSON. It has no rules of its own: its pages and
// actions call the services of other packages. The data of a list is read at most once in two seconds, however many
// people look at it; that of a page about one thing is read each time.
package console

import (
	"context"
	"embed"
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/figures"
	"github.com/supplyhub/supplyhub/internal/materials/operator"
	"github.com/supplyhub/supplyhub/internal/reads"
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

// Deps are the services that the console shows and calls.
type Deps struct {
	Requests   *operator.Service
	Deliveries *deliveries.Keeper
	Receivers  *receivers.Registry
	Suppliers  *supplierauth.Service // and the browsers' sessions
	Trackers   *tracker.Service
	Scores     *scoreboard.Service
	Rates      *estimates.RateCard
	Live       *figures.Recorder // the counts of all processes
	// Remaining returns how many calls of the scoreboard each requester has left today.
	Remaining func(ctx context.Context) (map[string]int64, error)
	// Providers returns how often this process asked each of the scoreboard's providers, by outcome.
	Providers func() (map[string]map[string]int64, error)
	// PortalLink makes a link that opens a supplier's portal. It works once, until it expires.
	PortalLink func(ctx context.Context, supplierID string) (address string, expires time.Time, err error)
	Token      string // OPERATOR_TOKEN; empty: actions are off
	Now        func() time.Time
	Log        *slog.Logger
	Cursors    cursor.Sealer
}

const (
	fresh       = 2 * time.Second // so long a list is shown to all who ask for it
	mostCached  = 256
	readTimeout = 10 * time.Second
)

// Service serves the pages and the actions; views reads the pages' data.
type Service struct {
	deps    Deps
	site    *web.Site
	cache   *reads.Cache[any]
	guesses guesses
}

// New returns the console, with its pages loaded.
func New(deps Deps) (*Service, error) {
	site, err := web.New(web.Config{
		Base: Base, Title: "Operator's console", SignOut: "/sign-out", Pages: pages, Functions: functions(), Now: deps.Now,
	})
	if err != nil {
		return nil, err
	}
	return &Service{deps: deps, site: site, cache: reads.New[any](mostCached, fresh, readTimeout, time.Now),
		guesses: guesses{of: map[string]*guesser{}}}, nil
}
