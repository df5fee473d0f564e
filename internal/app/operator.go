package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/supplyhub/supplyhub/internal/console"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/materials/operator"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// The operator's commands, which the api also runs by the hour: list and show requests, verify that
// everything accepted is accounted for, delete what is old. Commands and the running api share this code and the
// database's locks, so a command may run at any time.

// Console is where the console is and what an operator enters to act in it; no token: it only shows.
type Console struct{ Address, Token string }

// Console returns how to reach the console of a serving api.
func (a *App) Console() Console {
	return Console{Address: a.adminAddress + console.Base, Token: string(a.operatorToken)}
}

// operatorHandler returns the operator listener of an api: the console next to what every process shows.
func (a *App) operatorHandler(checks telemetry.Checks, held *httpapi.Ledger) (http.Handler, error) {
	site, err := console.New(console.Deps{
		Requests: a.Requests, Deliveries: a.Deliveries.Keeper, Receivers: a.Deliveries.Registry, Suppliers: a.Suppliers,
		Trackers: a.Trackers, Scores: a.Scores, Rates: a.Rates, Live: a.figures, Remaining: a.quotas.Remaining,
		Providers: a.providersAsked, Token: string(a.operatorToken), Now: a.db.Now, Log: a.log, Cursors: a.cursors,
		PortalLink: func(ctx context.Context, supplierID string) (string, time.Time, error) {
			link, err := a.PortalLink(ctx, supplierID)
			return link.URL, link.ExpiresAt, err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up console: %w", err)
	}
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: a.log, Ledger: held})
	a.consoleRoutes(engine, site)
	mux := http.NewServeMux()
	mux.Handle("/", telemetry.AdminHandler(a.registry, checks))
	mux.HandleFunc("GET /backlog", a.serveBacklog)
	mux.Handle("GET /{$}", http.RedirectHandler(console.Base, http.StatusSeeOther))
	mux.Handle(console.Base, engine)
	mux.Handle(console.Base+"/", engine)
	return httpapi.Straight(telemetry.Guarded(a.cfg.AdminHosts, console.Base, mux)), nil
}

// RequestDetail is a material request as an operator sees it.
type RequestDetail struct {
	SupplierID string `json:"supplier_id"`
	materials.Record
	Rounds     []materials.RoundOverview `json:"rounds"`
	Deliveries []deliveries.Delivery     `json:"deliveries"`
}

// EachDelivery hands the deliveries that the filter chooses to fn, of the requests with an id when one is given, the
// newest first; limit 0: all of them. errs.NotFound: there is no request of that id.
func (a *App) EachDelivery(ctx context.Context, filter deliveries.Filter, requestID *int64, limit int,
	fn func(deliveries.Delivery) error) error {
	if requestID != nil {
		requests, err := a.Requests.Rounds(ctx, filter.SupplierID, *requestID)
		if err != nil {
			return err
		}
		filter.Requests = lists.Of(requests, func(r round.Round) int64 { return r.UID })
		slices.Sort(filter.Requests)
		slices.Reverse(filter.Requests)
	}
	return a.Deliveries.Each(ctx, filter, limit, fn)
}

// shown is how many of the newest deliveries of a request are shown, and of the rounds before its own.
const shown = 1000

// ShowRequest returns a request with its rounds and deliveries. errs.NotFound: the supplier has none of that id.
func (a *App) ShowRequest(ctx context.Context, supplierID string, requestID int64) (d RequestDetail, err error) {
	record, rounds, current, err := a.Requests.Show(ctx, supplierID, requestID, shown)
	if err != nil {
		return d, err
	}
	d = RequestDetail{SupplierID: supplierID, Record: record, Rounds: rounds}
	of := deliveries.Filter{Requests: []int64{current.UID}}
	d.Deliveries, _, err = a.Deliveries.List(ctx, of, deliveries.Key{}, shown)
	return d, err
}

// Verification is the whole ledger: each request and each delivery is accounted for when OK is true.
type Verification struct {
	OK         bool                        `json:"ok"`
	Requests   map[materials.Status]int64  `json:"requests"`
	Deliveries map[deliveries.Status]int64 `json:"deliveries"`
	Faults     []string                    `json:"faults"` // at most a thousand of each kind; never nil
}

// Verify goes through everything that was ever accepted. It changes nothing and may run at any time.
func (a *App) Verify(ctx context.Context) (Verification, error) {
	requests, err := a.Requests.Verify(ctx, a.Deliveries.Underway)
	if err != nil {
		return Verification{}, err
	}
	deliveries, err := a.Deliveries.Verify(ctx)
	if err != nil {
		return Verification{}, err
	}
	faults := append(requests.Faults, deliveries.Faults...)
	return Verification{OK: len(faults) == 0, Requests: requests.Requests, Deliveries: deliveries.Deliveries,
		Faults: faults}, nil
}

const livePartitions = 10

// RetentionDays returns RETENTION_DAYS; 0: everything is kept.
func (a *App) RetentionDays() int { return a.cfg.Retention }

// retention returns what prunes once.
func (a *App) retention() func(context.Context) error {
	gauge := promauto.With(a.registry).NewGauge(prometheus.GaugeOpts{Name: "supplyhub_retention_kept_partitions",
		Help: "Partitions of events that are old and that retention could not drop when it ran last."})
	return func(ctx context.Context) error {
		if err := a.db.Known(ctx); err != nil {
			return err
		}
		kept, old := 0, operator.Days(a.db.Now(), a.cfg.Retention)
		p, err := a.Requests.Expire(database.ForMaintenance(ctx), old, func(p round.Partition, why string) {
			if why != "" {
				kept++
				a.log.WarnContext(ctx, "old events are kept", "partition", p.Name, "reason", why)
				return
			}
			a.log.InfoContext(ctx, "old events are dropped", "partition", p.Name)
		})
		if err == nil && p != (operator.Pruned{}) {
			a.log.InfoContext(ctx, "old records are deleted", "requests", p.Requests, "events", p.Events)
		}
		gauge.Set(float64(kept))
		return err
	}
}

// advance makes partitions ahead where retention will drop them, about ten of them: each costs the statements that look
// into all a little.
func (a *App) advance(ctx context.Context) error {
	return a.Deliveries.Advance(ctx, (a.cfg.Retention+livePartitions-1)/livePartitions)
}

// Now returns the database's time.
func (a *App) Now() time.Time { return a.db.Now() }
