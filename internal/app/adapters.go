package app

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/notify"
	"github.com/supplyhub/supplyhub/internal/products"
	"github.com/supplyhub/supplyhub/internal/queue"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/balldontlie"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sportmonks"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// Packages meet here: each adapter fills an interface that one declares with what another has.

// publish wakes the owner of a shard; a command has no queue, and the owner finds out by itself.
func (a *pipeline) publish(m round.Message) {
	if a.queue != nil {
		a.queue.Publish(round.Subject(m.Shard), m.Body())
	}
}

// owned passes on which shards this worker serves: estimations follow them, and so do the messages that it takes.
func (a *pipeline) owned(shards, orphans []int) {
	a.estimation.Own(shards, orphans)
	sleep.Wake(a.moved)
}

// subjects returns those of the messages that this worker takes.
func (a *pipeline) subjects() []string { return lists.Of(a.Deliveries.Shards(), round.Subject) }

// take does what a message says.
func (a *pipeline) take(m queue.Message) {
	switch message, ok := round.ParseMessage(m.Subject, m.Body); {
	case !ok:
		a.log.Warn("a message of the queue cannot be read and is dropped", "subject", m.Subject)
	case len(message.Rounds) > 0:
		a.estimation.Take(message.Rounds)
	default:
		a.Deliveries.Woken(message)
	}
}

// estimator is the rate card, each of whose estimations is a span.
type estimator struct{ app *pipeline }

// Estimate computes a request's estimates within a span.
func (e estimator) Estimate(ctx context.Context, r estimates.Request) (estimates.Result, error) {
	ctx, end := e.app.tracing.Span(ctx, "estimate", slog.String("supplier_id", r.SupplierID),
		slog.Int64("material_request_id", r.RequestID))
	result, err := e.app.Rates.Estimate(ctx, r)
	end(err)
	return result, err
}

// catalogue is the products, with what matters to an estimate.
type catalogue struct{ products *products.Service }

// Products returns the products with these keys; unknown ones are absent.
func (c catalogue) Products(ctx context.Context, keys []estimates.ProductKey) (
	map[estimates.ProductKey]estimates.Product, error) {
	wanted := lists.Of(keys, func(key estimates.ProductKey) products.Key { return products.Key(key) })
	found, err := c.products.Find(ctx, wanted)
	facts := make(map[estimates.ProductKey]estimates.Product, len(found))
	for key, p := range found {
		facts[estimates.ProductKey(key)] = estimates.Product{Active: p.Active, WeightKg: orZero(p.WeightKg),
			ProductionDays: int(orZero(p.ProductionDays))}
	}
	return facts, err
}

// orZero returns what the pointer points to; zero for nil.
func orZero[T any](p *T) T {
	return *cmp.Or(p, new(T))
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
