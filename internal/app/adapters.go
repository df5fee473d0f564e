package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/materials/work"
	"github.com/supplyhub/supplyhub/internal/products"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/balldontlie"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sportmonks"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/webhooks"
)

// Packages meet here: each adapter fills an interface that one declares with what another has.

// workQueue is the queue of a serving process; a command has none.
type workQueue struct{ app *pipeline }

func (q workQueue) Publish(subject string, body []byte) {
	if q.app.queue != nil {
		q.app.queue.Publish(subject, body)
	}
}

// Backlog returns what the queue holds, if it answers within a second.
func (q workQueue) Backlog(ctx context.Context, subjects string) (work.Backlog, error) {
	if q.app.queue == nil || !q.app.queue.Connected() {
		return work.Backlog{}, errNoQueue
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	backlog, err := q.app.queue.Backlog(ctx, subjects)
	return work.Backlog(backlog), err
}

var errNoQueue = errors.New("the queue is not connected")

// estimator is the rate card, each of whose estimations is a span.
type estimator struct{ app *pipeline }

func (e estimator) Estimate(ctx context.Context, r estimates.Request) (estimates.Result, error) {
	ctx, end := e.app.span(ctx, "estimate", slog.String("supplier_id", r.SupplierID),
		slog.Int64("material_request_id", r.RequestID))
	result, err := e.app.Rates.Estimate(ctx, r)
	end(err)
	return result, err
}

type outbox struct{ *webhooks.Dispatcher }

func (o outbox) Add(ctx context.Context, events []work.Outgoing) ([]round.Round, error) {
	outgoing := make([]webhooks.Outgoing, len(events))
	for i, e := range events {
		outgoing[i] = webhooks.Outgoing(e)
	}
	return o.Dispatcher.Add(ctx, outgoing)
}

// peers are the workers of this installation, reached through the queue's connection.
type peers struct{ app *pipeline }

// Send sends a worker a message, if NATS is reached; a command has no queue.
func (p peers) Send(worker int64, message []byte) {
	if p.app.queue != nil {
		p.app.queue.Send(worker, message)
	}
}

func (p peers) Listen(worker int64, take func([]byte)) (stop func(), err error) {
	return p.app.queue.Listen(worker, take)
}

type catalogue struct{ products *products.Service }

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

func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

type destinations struct{ suppliers *supplierauth.Service }

func (d destinations) Receivers(ctx context.Context, supplierIDs []string) (map[string]webhooks.Receiver, error) {
	found, err := d.suppliers.Receivers(ctx, supplierIDs)
	if err != nil {
		return nil, err
	}
	receivers := make(map[string]webhooks.Receiver, len(found))
	for id, r := range found {
		receivers[id] = webhooks.Receiver(r)
	}
	return receivers, nil
}

// primary returns the scoreboard's first provider, if there is a token for it.
func primary(cfg *config.Config, log *slog.Logger, now func() time.Time) scoreboard.Provider {
	if cfg.PrimaryToken == "" {
		return nil
	}
	return sportmonks.New(cfg.PrimaryURL, string(cfg.PrimaryToken), log, now)
}

// accounts is what suppliers may change of themselves.
type accounts struct{ destinations }

func (a accounts) SetWebhookURL(ctx context.Context, supplierID, url string) error {
	return a.suppliers.SetWebhookURL(ctx, supplierID, url)
}

func (a accounts) WebhookSecrets(ctx context.Context, supplierID string) ([]webhooks.SecretValidity, error) {
	secrets, err := a.suppliers.WebhookSecrets(ctx, supplierID)
	if err != nil {
		return nil, err
	}
	list := make([]webhooks.SecretValidity, len(secrets))
	for i, secret := range secrets {
		list[i] = webhooks.SecretValidity(secret)
	}
	return list, nil
}

func (a accounts) RotateWebhookSecret(ctx context.Context, supplierID string, overlap time.Duration) (string, error) {
	return a.suppliers.RotateWebhookSecret(ctx, supplierID, overlap)
}

// fallback returns the second provider, if there is a key for it.
func fallback(cfg *config.Config, log *slog.Logger) scoreboard.Provider {
	if cfg.FallbackKey == "" {
		return nil
	}
	return balldontlie.New(cfg.FallbackURL, string(cfg.FallbackKey), log)
}
