// Package app builds the service: straight-line construction, top to bottom, the same for both binaries and for the
// tests. It is the only package that knows all others. Which database and which queue are opened is decided in
// stack.go.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/figures"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/materials/operator"
	"github.com/supplyhub/supplyhub/internal/materials/work"
	"github.com/supplyhub/supplyhub/internal/notify"
	"github.com/supplyhub/supplyhub/internal/portal"
	"github.com/supplyhub/supplyhub/internal/products"
	"github.com/supplyhub/supplyhub/internal/queue"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/balldontlie"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sportmonks"
	"github.com/supplyhub/supplyhub/internal/sending"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/telemetry"
	"github.com/supplyhub/supplyhub/internal/tracker"
)

// The order of construction is the order of the code below: secrets, the database, then the packages over it, each
// given what it needs and nothing else. A package declares what it needs of another as an interface of its own;
// adapters.go has what must be converted. A worker is built from the pipeline alone. Close releases all of it in the
// reverse order.

// traceEnd is how long the end of a process waits for its last spans to be taken.
const traceEnd = 2 * time.Second

// App is the built service. Its queue is nil in one that was opened for a command.
type App struct {
	pipeline
	Trackers  *tracker.Service
	Scores    *scoreboard.Service
	Sent      *deliveries.SelfService // suppliers see and redeliver what goes to them
	Receivers *receivers.SelfService

	portal                      *portal.Service // nil in one that was opened for a command
	publicAddress, adminAddress string          // of the listeners of a serving api
}

// pipeline is what both binaries have: all that a material request passes through. The worker is built from nothing
// else, so that it links nothing else.
type pipeline struct {
	Suppliers  *supplierauth.Service
	Deliveries *sending.Dispatcher
	Rates      *estimates.RateCard
	Requests   *operator.Service

	cfg             *config.Config
	log             *slog.Logger
	registry        *prometheus.Registry
	tracing         *telemetry.Tracing // nil in one that was opened for a command
	db              *database.DB
	queue           *queue.Queue
	materials       *materials.Service
	estimation      *work.Service
	products        *products.Service
	quotas          *scoreboard.Quotas
	providerMetrics *scoreboard.Metrics
	figures         *figures.Recorder
	notifier        *notify.Notifier // nil: the operator is not notified
	cursors         cursor.Sealer

	operatorToken config.Secret
	ready         atomic.Bool   // the process is neither starting nor stopping
	watches       sync.Map      // watch: why something that was configured does not work, by name; a nil error: it does
	moved         chan struct{} // holds a note when this worker's shards have changed
}

// Build opens the database and builds every service over it, without the queue. It makes what the embedded default
// lacks.
func Build(ctx context.Context, cfg *config.Config, log *slog.Logger) (*App, error) {
	return build(ctx, cfg, log, use{profile: database.Maintenance})
}

// Open is Build for a command: it makes neither directory nor keys, and the schema must be this build's.
func Open(ctx context.Context, cfg *config.Config, log *slog.Logger) (*App, error) {
	if _, err := os.Stat(cfg.SQLitePath()); cfg.DatabaseURL == "" && errors.Is(err, fs.ErrNotExist) {
		return nil,
			fmt.Errorf("there is no database in DATA_DIR (%s): set DATA_DIR to that of a service that was started once, "+
				"or set DATABASE_URL", cfg.DataDir)
	}
	if cfg.DatabaseURL == "" {
		notStopped()
	}
	a, err := build(ctx, cfg, log, use{profile: database.Maintenance, asItIs: true})
	if err != nil {
		return nil, err
	}
	if err := a.db.CheckSchema(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	if err := a.db.Known(ctx); err != nil { // "30 minutes ago" is by the database's clock
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// build opens the database and builds all services over it.
func build(ctx context.Context, cfg *config.Config, log *slog.Logger, u use) (*App, error) {
	a := &App{pipeline: pipeline{cfg: cfg, log: log, registry: telemetry.NewRegistry()}}
	if err := a.open(ctx, u); err != nil {
		return nil, err
	}
	a.buildListings(u.role != "")
	return a, nil
}

// open opens the database and builds the pipeline over it.
func (a *pipeline) open(ctx context.Context, u use) error {
	if err := notRestoring(a.cfg); err != nil {
		return err
	}
	var err error
	if u.role != "" {
		if a.tracing, err = telemetry.NewTracing(ctx, Environment(), u.role, a.log); err != nil {
			return err
		}
	}
	if a.db, err = openDatabase(ctx, a.cfg, a.log, u); err != nil {
		return inDataDir(a.cfg, err)
	}
	secrets, err := a.secrets(ctx, u.asItIs)
	if err == nil {
		err = a.build(secrets)
	}
	if err != nil {
		return errors.Join(err, a.db.Close())
	}
	return nil
}

// secrets loads the secrets. It makes no new key where something is sealed by one that is lost.
func (a *pipeline) secrets(ctx context.Context, asItIs bool) (*secrets, error) {
	if a.cfg.DatabaseURL == "" && a.cfg.SecretsKeys == "" && !asItIs {
		_, err := os.Stat(filepath.Join(a.cfg.DataDir, secretsKeyFile))
		if errors.Is(err, fs.ErrNotExist) && supplierauth.AnySealed(ctx, a.db) {
			return nil, fmt.Errorf("SECRETS_KEY: DATA_DIR (%s) has secrets that a key sealed which is missing: "+
				"put the file %s back, or set SECRETS_KEY", a.cfg.DataDir, secretsKeyFile)
		}
	}
	loaded, err := loadSecrets(a.cfg, asItIs)
	return loaded, inDataDir(a.cfg, err)
}

// inDataDir adds to an error where the embedded default keeps what could not be read or made; nil stays nil.
func inDataDir(cfg *config.Config, err error) error {
	if err == nil || cfg.DatabaseURL != "" {
		return err
	}
	if errors.Is(err, database.ErrDamaged) {
		return fmt.Errorf("DATA_DIR (%s): %w", cfg.DataDir, err)
	}
	return fmt.Errorf("DATA_DIR (%s) must be a directory that this process can write: %w", cfg.DataDir, err)
}

// build builds the pipeline, in the order in which its parts need each other.
func (a *pipeline) build(secrets *secrets) (err error) {
	a.moved = make(chan struct{}, 1)
	a.Suppliers, err = supplierauth.New(supplierauth.Deps{
		DB: a.db, Log: a.log, Now: a.db.Now, Latest: a.db.Latest, Local: time.Now,
		SigningKeys: secrets.signingKeys, SecretsKeys: secrets.secretsKeys,
		Issuer: a.cfg.JWTIssuer, Audience: a.cfg.JWTAudience, AllowPrivateWebhooks: a.cfg.AllowPrivate,
		RequestsPerSecond:   a.cfg.RateLimit,
		ReceiverConcurrency: a.cfg.ReceiverCalls, Registerer: a.registry,
		Callable: func(ctx context.Context, supplierID string) error { return a.Deliveries.Callable(ctx, supplierID) },
		Moved: func(ctx context.Context, supplierID, url string) error {
			return a.Deliveries.Moved(ctx, supplierID, url)
		},
	})
	if err != nil {
		return fmt.Errorf("set up supplier authentication: %w", err)
	}
	proofs, err := caller.NewProofs(secrets.secretsKeys)
	if err != nil {
		return fmt.Errorf("derive the key of the own endpoint: %w", err)
	}
	if a.cursors, err = cursor.New(secrets.secretsKeys); err != nil {
		return err
	}
	a.notifier = a.openNotifier()
	a.products = products.New(a.db, a.db.Now)
	a.Rates = estimates.New(a.db, a.db.Now, time.Now)
	ledger := materials.NewRequestLedger(a.db, a.log, a.db.Now, a.notifier)
	a.Deliveries = sending.New(sending.Deps{
		DB: a.db, Log: a.log, Now: a.db.Now, Destinations: a.Suppliers, Ledger: ledger, BaseURL: a.cfg.BaseURL,
		OwnSecrets: secrets.webhooks, Proofs: proofs, Timeout: a.cfg.Timeout, Schedule: a.cfg.RetrySchedule(),
		AllowPrivate: a.cfg.AllowPrivate, Deny: a.cfg.Denied(), Concurrency: a.cfg.Concurrency,
		PauseAfter: a.cfg.PauseAfter, Notifier: a.notifier,
		Publish: a.publish, Owned: a.owned, Registerer: a.registry, Trace: a.tracing.Call, TraceParent: a.tracing.Parent,
	})
	a.estimation = work.New(work.Deps{
		DB: a.db, Log: a.log, Now: a.db.Now, Local: time.Now, Publish: a.publish, Arrives: a.arrives, Outbox: a.Deliveries,
		Catalogue: catalogue{a.products}, Estimator: estimator{a},
		Ledger: ledger, Flushers: a.db.Flushers(), Schedule: a.cfg.RetrySchedule(),
	})
	a.materials = materials.New(materials.Deps{
		DB: a.db, Log: a.log, Now: a.db.Now, Publisher: a.estimation, Outbox: a.Deliveries,
		Secrets: secrets.webhooks, Proofs: proofs, Flushers: a.db.Flushers(), TraceParent: a.tracing.Parent,
		Cursors: a.cursors,
	})
	a.Requests = operator.New(operator.Deps{DB: a.db, Now: a.db.Now, Requests: a.materials, Events: a.Deliveries,
		Partitions: a.Deliveries})
	a.quotas = scoreboard.NewQuotas(a.db, a.db.Now, time.Now)
	a.providerMetrics = scoreboard.NewMetrics(a.registry, sportmonks.Name, balldontlie.Name)
	a.figures, a.operatorToken = figures.New(a.db, a.db.Now, a.did), config.Secret(secrets.operator)
	return nil
}

// buildListings builds what is read here and takes no part in the pipeline.
func (a *App) buildListings(serving bool) {
	a.Sent = deliveries.NewSelfService(deliveries.SelfServiceDeps{
		DB: a.db, Now: a.db.Now, Local: time.Now, Requests: a.materials, Deliveries: a.Deliveries.Keeper, Cursors: a.cursors,
	})
	a.Receivers = receivers.NewSelfService(receivers.SelfServiceDeps{
		DB: a.db, Now: a.db.Now, Accounts: a.Suppliers, Receivers: a.Deliveries.Registry, Calls: a.Deliveries,
	})
	a.Scores = scoreboard.New(scoreboard.Deps{
		Quotas: a.quotas, Log: a.log, Keys: a.cfg.ScoreboardKeys(), CacheTTL: a.cfg.CacheTTL,
		Primary: primary(a.cfg, a.log, a.db.Now), Fallback: fallback(a.cfg, a.log), Metrics: a.providerMetrics,
	})
	a.Trackers = tracker.New(tracker.Deps{DB: a.db, Log: a.log, Now: a.db.Now, Serving: serving})
}

// openPortal reads the portal's pages.
func (a *App) openPortal() (err error) {
	a.portal, err = portal.New(portal.Deps{
		Sessions: a.Suppliers, Requests: a.materials, Deliveries: a.Sent, Receiver: a.Receivers,
		Bearer: supplierauth.Handlers{Service: a.Suppliers}.Bearer, PublicURL: a.cfg.PublicURL, Now: a.db.Now,
	})
	return errs.Doing("set up portal", err)
}

// PortalLink returns a link that signs the supplier in, once, at PUBLIC_URL or else where the service listens.
func (a *App) PortalLink(ctx context.Context, supplierID string) (portal.Link, error) {
	public := cmp.Or(a.cfg.PublicURL, a.publicAddress, ownURL(a.cfg.HTTPAddr))
	if strings.HasSuffix(public, ":0") { // the system chooses the port
		return portal.Link{}, errors.New("the service's address is not known: set PUBLIC_URL")
	}
	return portal.NewLink(ctx, a.Suppliers, supplierID, public)
}

// endTrace sends the last spans, for a moment only: no work waits for a collector that is away. A failure is only
// logged: nothing depends on it.
func (a *pipeline) endTrace(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceEnd)
	defer cancel()
	if err := a.tracing.Close(ctx); err != nil {
		a.log.WarnContext(ctx, "the last spans could not be sent", "error", err)
	}
}

// Migrate is the command: it brings the schema to this binary's version. The service's user owns what root makes.
func (a *App) Migrate(ctx context.Context) error {
	return errors.Join(a.db.Migrate(ctx), giveAway(a.cfg))
}

// Close releases everything in the reverse order of its construction.
func (a *App) Close() error {
	a.Trackers.Close()
	a.Scores.Close()
	return a.pipeline.Close()
}

// Close releases what a worker has.
func (a *pipeline) Close() error {
	a.materials.Close()
	a.estimation.Close()
	a.Suppliers.Close()
	a.Deliveries.Close()
	if a.queue != nil {
		a.queue.Close()
	}
	return a.db.Close()
}
