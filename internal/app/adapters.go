package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/notify"
	"github.com/supplyhub/supplyhub/internal/products"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/balldontlie"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sportmonks"
)

// Packages meet here: each adapter fills an interface that one declares with what another has.

// workQueue is the queue of a serving process; a command has none.
type workQueue struct{ app *pipeline }

// Publish queues work; a command, which has no queue, leaves it to the sweeper of an api.
func (q workQueue) Publish(subject string, body []byte) {
	if q.app.queue != nil {
		q.app.queue.Publish(subject, body)
	}
}

// Backlog returns what the queue holds, if it answers within a second.
func (q workQueue) Backlog(ctx context.Context, subjects string) (round.Backlog, error) {
	if q.app.queue == nil || !q.app.queue.Connected() {
		return round.Backlog{}, errNoQueue
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return q.app.queue.Backlog(ctx, subjects)
}

var errNoQueue = errors.New("the queue is not connected")

// estimator is the rate card, each of whose estimations is a span.
type estimator struct{ app *pipeline }

// Estimate computes a request's estimates within a span.
func (e estimator) Estimate(ctx context.Context, r estimates.Request) (estimates.Result, error) {
	ctx, end := e.app.span(ctx, "estimate", slog.String("supplier_id", r.SupplierID),
		slog.Int64("material_request_id", r.RequestID))
	result, err := e.app.Rates.Estimate(ctx, r)
	end(err)
	return result, err
}

// peers are the workers of this installation, reached through the queue's connection.
type peers struct{ app *pipeline }

// Send sends a worker a message, if NATS is reached; a command has no queue.
func (p peers) Send(worker int64, message []byte) {
	if p.app.queue != nil {
		p.app.queue.Send(worker, message)
	}
}

// Listen takes what other workers send to the worker of that number.
func (p peers) Listen(worker int64, take func([]byte)) (stop func(), err error) {
	return p.app.queue.Listen(worker, take)
}

// catalogue is the products, with what matters to an estimate.
type catalogue struct{ products *products.Service }

// Products returns the products of these SKUs; unknown ones are absent.
func (c catalogue) Products(ctx context.Context, supplierID string, skus []string) (
	map[string]estimates.Product, error) {
	found, err := c.products.Find(ctx, supplierID, skus)
	if err != nil {
		return nil, err
	}
	facts := make(map[string]estimates.Product, len(found))
	for sku, p := range found {
		facts[sku] = estimates.Product{Active: p.Active, WeightKg: orZero(p.WeightKg),
			ProductionDays: int(orZero(p.ProductionDays))}
	}
	return facts, nil
}

// orZero returns what the pointer points to; zero for nil.
func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// primary returns the scoreboard's first provider, if there is a token for it.
func primary(cfg *config.Config, log *slog.Logger, now func() time.Time) scoreboard.Provider {
	if cfg.PrimaryToken == "" {
		return nil
	}
	return sportmonks.New(cfg.PrimaryURL, string(cfg.PrimaryToken), log, now)
}

// fallback returns the second provider, if there is a key for it.
func fallback(cfg *config.Config, log *slog.Logger) scoreboard.Provider {
	if cfg.FallbackKey == "" {
		return nil
	}
	return balldontlie.New(cfg.FallbackURL, string(cfg.FallbackKey), log)
}

// openNotifier makes the operator's notifier; nil without OPERATOR_WEBHOOK_URL.
func (a *pipeline) openNotifier() *notify.Notifier {
	if a.cfg.EventsURL == "" {
		return nil
	}
	secrets, _ := config.ParseWebhookSecrets(a.cfg.EventsSecrets) // Load has checked them
	to := receivers.Receiver{URL: string(a.cfg.EventsURL), Secrets: secrets, Active: true}
	return notify.New(notify.Deps{
		DB: a.db, Log: a.log, Now: a.db.Now, Names: a.Suppliers.Names, Timeout: a.cfg.Timeout,
		Send: func(ctx context.Context, id string, body []byte, attempt int64) notify.Verdict {
			outcome, reason := a.Deliveries.SendToOperator(ctx, to, id, body, attempt)
			verdict := notify.Verdict{Delivered: outcome.Status == deliveries.Delivered, Reason: reason}
			if outcome.Status == deliveries.Pending {
				verdict.Again = outcome.Next
			}
			return verdict
		},
	})
}
