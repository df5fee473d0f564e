package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/sync/errgroup"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/sleep"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// The life of an api. Its listeners are opened first, so that a wrong address is reported before anything is made; then
// the schema is migrated, the queue opened (which may be away), and requests are answered. SIGTERM: /readyz says no,
// requests are taken for DRAIN_DELAY more, HTTP is drained, then the process's other tasks are stopped. There are 30
// seconds for that. Whatever does not end in time is cut off and loses nothing: an accepted request is in the database,
// and another process does again what this one had begun.

const (
	defaultAPIAdmin = "127.0.0.1:9090"
	drainTimeout    = 28 * time.Second // of the 30 s that SIGTERM grants; DRAIN_DELAY runs at the same time
	workDrain       = 23 * time.Second // of these, for the embedded worker; the others are for calls in flight
	longestGlance   = 2 * time.Second  // at the embedded database's file
)

// api is a running api process.
type api struct {
	*App
	public, admin net.Listener
}

// ServeAPI runs the api process from its configuration to its end. started is called once requests are answered, with
// the own address.
func ServeAPI(ctx context.Context, cfg *config.Config, log *slog.Logger,
	started func(context.Context, *App, string) error) (err error) {
	tuneMemory()
	ownerOnly()
	public, admin, err := listen(ctx, cfg.HTTPAddr, cmp.Or(cfg.AdminAddr, defaultAPIAdmin))
	if err != nil {
		return err
	}
	address := ownURL(public.Addr().String())
	served := *cfg // the caller's stays as it is
	served.BaseURL = cmp.Or(cfg.BaseURL, address)
	a, err := build(ctx, &served, log, use{profile: database.Serving, role: "api"})
	if err != nil {
		return errors.Join(unlessStopped(ctx, err), public.Close(), admin.Close())
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	defer a.endTrace(ctx)
	if err := a.prepare(ctx); err != nil {
		return errors.Join(unlessStopped(ctx, err), public.Close(), admin.Close())
	}
	return a.serve(ctx, public, admin, func(ctx context.Context) error { return started(ctx, a, address) })
}

// prepare looks at the database's file and brings the schema to this build's version.
func (a *App) prepare(ctx context.Context) error {
	if err := a.db.GlanceAtFile(ctx, longestGlance); err != nil {
		return inDataDir(a.cfg, err)
	}
	return a.db.Migrate(ctx)
}

// unlessStopped returns the error of a start, or nil when the process is to stop: an operator who ends it early need
// not read about a fault.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// listen opens the api's two listeners.
func listen(ctx context.Context, httpAddr, adminAddr string) (public, admin net.Listener, err error) {
	if public, err = listenAt(ctx, httpAddr, "HTTP_ADDR must be an address that is free, such as :8081"); err != nil {
		return nil, nil, err
	}
	if admin, err = listenAt(ctx, adminAddr, badAdmin); err != nil {
		return nil, nil, errors.Join(err, public.Close())
	}
	return public, admin, nil
}

const badAdmin = "ADMIN_ADDR must be an address that is free, such as 127.0.0.1:9092"

func listenAt(ctx context.Context, address, bad string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	return l, errs.Doing(bad, err)
}

// serve runs the api until ctx ends and everything in flight is finished. Order of the stop: readiness off, for
// DRAIN_DELAY requests are still taken and meanwhile the embedded worker is drained, which calls our own endpoint;
// HTTP drained, the other tasks stopped; Close does the rest.
func (a *App) serve(ctx context.Context, public, admin net.Listener, started func(context.Context) error) error {
	s := &api{App: a, public: public, admin: admin}
	a.publicAddress, a.adminAddress = ownURL(public.Addr().String()), ownURL(admin.Addr().String())
	if err := a.openQueue(ctx, "api"); err != nil {
		return unlessStopped(ctx, err)
	}
	if err := a.openPortal(); err != nil {
		return err
	}
	held := ledger()
	s.public = held.Listener(public)
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: a.log, Registry: a.registry, Tracer: a.tracing.Provider,
		Ledger: held, TrustedProxies: a.cfg.Trusted(), HTTPS: strings.HasPrefix(a.cfg.PublicURL, "https:")})
	a.routes(engine)
	return s.run(ctx, engine, started)
}

// run answers requests and runs the other tasks until ctx ends or one of them fails, then stops all in order.
func (s *api) run(ctx context.Context, engine *gin.Engine, started func(context.Context) error) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx)) // the embedded worker
	defer stopWork()
	upkeep, stopUpkeep := context.WithCancel(context.WithoutCancel(ctx)) // what outlives HTTP
	defer stopUpkeep()

	server := httpapi.NewServer(engine, s.log)
	server.IdleTimeout = s.cfg.HTTPIdle
	server.RegisterOnShutdown(s.materials.StopWaiting)
	held := operatorLedger()
	operator, err := s.operatorHandler(s.checks, held)
	if err != nil {
		return err
	}
	adminServer := httpapi.NewServer(operator, s.log)
	group, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	group.Go(func() error { return serve(server, s.public) })
	group.Go(func() error { return serve(adminServer, held.Listener(s.admin)) })
	again := func(interval time.Duration, failed string, step func(context.Context) error) {
		group.Go(func() error { return s.every(upkeep, interval, failed, step) })
	}
	again(time.Hour, "purge of expired sessions failed", s.Suppliers.Purge)
	if retain := s.retention(); s.cfg.Retention > 0 {
		again(time.Hour, "retention failed", retain)
		again(time.Minute, "making partitions failed", s.advance)
		again(time.Minute, "deleting old events failed", s.Deliveries.DeleteDropped) // a table a minute
	}
	group.Go(func() error { return s.runGauges(upkeep) })
	role := map[bool]string{true: "both", false: "api"}[s.cfg.Embedded()]
	group.Go(func() error { return s.runFigures(upkeep, role) })
	group.Go(func() error { return s.watchKeys(upkeep) })
	workers := make(chan error, 1)
	if s.cfg.Embedded() {
		go func() { workers <- s.work(work) }()
		if s.cfg.BaseURL != s.publicAddress {
			group.Go(func() error { return s.watchEndpoint(work) })
		}
	} else {
		close(workers)
	}
	s.ready.Store(true)
	s.log.InfoContext(ctx, "api is serving", "address", s.public.Addr().String(), "admin", s.admin.Addr().String(),
		"engine", s.db.Engine(), "embedded", s.cfg.Embedded())
	group.Go(func() error { return unlessStopped(ctx, started(ctx)) })

	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	s.ready.Store(false)
	s.log.InfoContext(ctx, "api is stopping")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	server.SetKeepAlivesEnabled(false)
	stopWork()
	sleep.For(drain, s.cfg.DrainDelay)
	working, stopWaiting := context.WithTimeout(drain, workDrain)
	defer stopWaiting()
	workErr := s.wait(working, workers)
	s.shutdown(drain, server)
	stopUpkeep()
	s.shutdown(drain, adminServer)
	return errors.Join(workErr, group.Wait())
}

// shutdown lets a server finish its requests; those that take too long are cut off.
func (a *pipeline) shutdown(ctx context.Context, server *http.Server) {
	if err := server.Shutdown(ctx); err != nil {
		a.log.WarnContext(ctx, "connections were still busy and are closed", "error", err)
		_ = server.Close() // its error was logged
	}
}

// serve answers on a listener until the server is shut down, which is no error.
func serve(server *http.Server, l net.Listener) error {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// every repeats a step until ctx ends, and logs what fails.
func (a *pipeline) every(ctx context.Context, interval time.Duration, failed string,
	step func(context.Context) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := step(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, failed, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// checks returns what /readyz of the api reports. NATS is reported but not required: intake goes on without it.
func (s *api) checks(ctx context.Context) map[string]error {
	err := s.deliversWork()
	if err != nil {
		err = telemetry.Degraded{Err: err}
	}
	return s.pipeline.checks(ctx, err)
}

// wait waits for the worker's end. One that takes too long has lost nothing: its work is due in the database.
func (a *pipeline) wait(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		a.log.WarnContext(ctx, "the worker did not drain in time; its work stays due")
		return nil
	}
}
