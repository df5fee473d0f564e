package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// The life of a worker: it estimates and sends what its shards have due; nothing else is linked into its binary. At the
// end it gives its shards away, finishes the batches under way, lets the calls to receivers end, and then those of the
// operator. It has the time of an api for all of that. A worker that is killed instead leaves its shards to the others
// when its lease is over.

const defaultWorkerAdmin = "127.0.0.1:9091"

// RunWorker runs the worker process from its configuration to its end.
func RunWorker(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	tuneMemory()
	admin, err := listenAt(ctx, cmp.Or(cfg.AdminAddr, defaultWorkerAdmin), badAdmin)
	if err != nil {
		return err
	}
	a := &pipeline{cfg: cfg, log: log, registry: telemetry.NewRegistry()}
	if err := a.open(ctx, use{profile: database.Serving, role: "worker", noReaders: true}); err != nil {
		return errors.Join(unlessStopped(ctx, err), admin.Close())
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	defer a.endTrace(ctx)
	if err := a.db.Migrate(ctx); err != nil {
		return errors.Join(unlessStopped(ctx, err), admin.Close())
	}
	return a.runWorker(ctx, admin)
}

// runWorker works until ctx ends and everything in flight is finished.
func (a *pipeline) runWorker(ctx context.Context, admin net.Listener) error {
	if err := a.openQueue(ctx, "worker"); err != nil {
		return unlessStopped(ctx, err)
	}
	checks := func(ctx context.Context) map[string]error { return a.checks(ctx, a.deliversWork()) }
	handler := httpapi.Straight(telemetry.Guarded(a.cfg.AdminHosts, "", telemetry.AdminHandler(a.registry, checks)))
	server := httpapi.NewServer(handler, a.log)
	group, failed := errgroup.WithContext(ctx)
	working, stopWorking := context.WithCancel(failed)
	defer stopWorking()
	group.Go(func() error { return serve(server, operatorLedger().Listener(admin)) })
	group.Go(func() error { return a.runGauges(working) })
	group.Go(func() error { return a.runFigures(working, "worker") })
	group.Go(func() error { return a.watchKeys(working) })
	group.Go(func() error { return a.watchEndpoint(working) })
	a.ready.Store(true)
	a.log.InfoContext(ctx, "worker is running", "admin", admin.Addr().String())
	worked := make(chan error, 1)
	go func() {
		defer stopWorking()
		worked <- a.work(working)
	}()
	<-working.Done()
	a.ready.Store(false)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	workErr := a.wait(drain, worked)
	a.shutdown(drain, server)
	return errors.Join(workErr, group.Wait())
}

// deliversWork returns why work does not come by the queue. The work is still done, unless the worker
// cannot use the queue at all.
func (a *pipeline) deliversWork() error {
	if err := a.queue.Health(); err != nil {
		return err
	}
	if err := a.estimation.Undelivered(); err != nil {
		return telemetry.Degraded{Err: err}
	}
	return nil
}

// arrives reports whether messages come at all.
func (a *pipeline) arrives() bool { return a.queue.Health() == nil }

// work estimates and sends until ctx ends: first nothing new is taken, then what is in flight ends.
func (a *pipeline) work(ctx context.Context) error {
	sending, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSending()
	leave := context.AfterFunc(ctx, a.Deliveries.Leave)
	defer leave()
	var sent errgroup.Group
	var consumed sync.WaitGroup
	sent.Go(func() error { return a.Deliveries.Run(sending) })
	sent.Go(func() error { return a.notifier.Run(sending) })
	sent.Go(func() error {
		a.Deliveries.RunSetBack(sending, a.notifier.SetBack, a.estimation.SetBack)
		return nil
	})
	consumed.Go(func() { a.queue.Consume(ctx, a.subjects, a.moved, a.take) })
	estimateErr := a.estimation.Run(ctx)
	consumed.Wait()
	stopSending()
	return errors.Join(estimateErr, sent.Wait())
}
