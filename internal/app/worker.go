package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/materials/work"
	"github.com/supplyhub/supplyhub/internal/queue"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// The life of a worker: it takes messages, estimates, and sends; nothing else is linked into its binary. At the end
// it first takes no more messages, finishes the batches under way, then lets the calls to receivers end. A worker
// that is killed instead leaves its messages to the others after AckWait, and its deliveries when its lease is over.

// workers is how many messages are worked on at once: enough that their transactions fill batches, and that the first
// of several processes leaves the others few.
const workers = 256

const defaultWorkerAdmin = "127.0.0.1:9091"

// RunWorker runs the worker process from its configuration to its end.
func RunWorker(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	tuneMemory()
	var lc net.ListenConfig
	admin, err := lc.Listen(ctx, "tcp", cmp.Or(cfg.AdminAddr, defaultWorkerAdmin))
	if err != nil {
		return fmt.Errorf("ADMIN_ADDR must be an address that is free, such as 127.0.0.1:9092: %w", err)
	}
	a := &pipeline{cfg: cfg, log: log, registry: telemetry.NewRegistry()}
	if err := a.open(ctx, use{profile: database.Serving, role: "worker", noReaders: true}); err != nil {
		return errors.Join(unlessStopped(ctx, err), admin.Close())
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	defer a.endTrace(ctx)
	if err := a.Migrate(ctx); err != nil {
		return errors.Join(unlessStopped(ctx, err), admin.Close())
	}
	return a.runWorker(ctx, admin)
}

// runWorker works until ctx ends and everything in flight is finished.
func (a *pipeline) runWorker(ctx context.Context, admin net.Listener) error {
	if err := a.openQueue(ctx, "worker"); err != nil {
		return unlessStopped(ctx, err)
	}
	var ready atomic.Bool
	checks := func(ctx context.Context) map[string]error {
		checks := map[string]error{"database": a.db.Ping(ctx), "nats": a.deliversWork()}
		if !ready.Load() {
			checks["draining"] = errors.New("the process is stopping")
		}
		return checks
	}
	handler := telemetry.Guarded(a.cfg.AdminHosts, "", httpapi.Straight(telemetry.AdminHandler(a.registry, checks)))
	server := httpapi.NewServer(handler, a.log)
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(server, operatorLedger().Listener(admin)) })
	group.Go(func() error { return a.runGauges(working) })
	group.Go(func() error { return a.runFigures(working, false) })
	ready.Store(true)
	a.log.InfoContext(ctx, "worker is running", "admin", admin.Addr().String())
	workErr := a.work(working)
	ready.Store(false)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	return errors.Join(workErr, server.Shutdown(drain), group.Wait())
}

// deliversWork returns why work does not come by the queue. It is done all the same, but for a queue that a worker
// cannot use at all.
func (a *pipeline) deliversWork() error {
	if err := a.queue.Health(); err != nil {
		return err
	}
	if err := a.estimation.Undelivered(); err != nil {
		return telemetry.Degraded{Err: err}
	}
	return nil
}

// work consumes the queue and sends deliveries until ctx ends: first no new work is taken, then work in flight ends.
func (a *pipeline) work(ctx context.Context) error {
	sending, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSending()
	sent, notified := make(chan error, 1), make(chan error, 1)
	go func() { sent <- a.Deliveries.Run(sending) }()
	direct := make(chan error, 1)
	go func() { direct <- a.estimation.RunDirect(ctx, a.queue.Idle) }()
	go func() { notified <- a.notifier.Run(sending) }()
	go a.Deliveries.RunSetBack(sending)
	consumeErr := a.queue.Consume(ctx, workers, a.Deliveries.Behind, func(ctx context.Context, m queue.Message) error {
		if m.Subject == wakeSubject {
			a.Deliveries.Wake()
			return nil
		}
		return a.estimation.Work(ctx, work.Message{Subject: m.Subject, Body: m.Body})
	})
	directErr := <-direct
	stopSending()
	return errors.Join(consumeErr, directErr, <-sent, <-notified)
}
