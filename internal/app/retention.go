package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/materials/operator"
	"github.com/supplyhub/supplyhub/internal/round"
)

const (
	pruneInterval      = time.Hour
	partitionsInterval = time.Minute
	livePartitions     = 10
)

// Prune deletes the finished requests that are old. done is called with what is deleted so far.
func (a *App) Prune(ctx context.Context, old operator.Old, done func(operator.Pruned)) (operator.Pruned, error) {
	return a.requests.Prune(ctx, old, done)
}

// RetentionDays returns RETENTION_DAYS; 0: everything is kept.
func (a *App) RetentionDays() int { return a.cfg.Retention }

// runRetention prunes once an hour.
func (a *App) runRetention(ctx context.Context) error {
	if a.cfg.Retention == 0 {
		return nil
	}
	kept := prometheus.NewGauge(prometheus.GaugeOpts{Name: "supplyhub_retention_kept_partitions",
		Help: "Partitions of events that are old and that retention could not drop when it ran last."})
	a.registry.MustRegister(kept)
	for ctx.Err() == nil {
		a.retain(ctx, kept)
		pause(ctx, pruneInterval)
	}
	return nil
}

// retain prunes once.
func (a *App) retain(ctx context.Context, keptPartitions prometheus.Gauge) {
	kept := 0
	old := operator.Days(a.db.Now(), a.cfg.Retention)
	p, err := a.requests.Expire(database.ForMaintenance(ctx), old, func(p round.Partition, why string) {
		if why != "" {
			kept++
			a.log.WarnContext(ctx, "old events are kept", "partition", p.Name, "reason", why)
			return
		}
		a.log.InfoContext(ctx, "old events are dropped", "partition", p.Name)
	})
	if err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "retention failed", "error", err)
	} else if p != (operator.Pruned{}) {
		a.log.InfoContext(ctx, "old records are deleted", "requests", p.Requests, "events", p.Events)
	}
	keptPartitions.Set(float64(kept))
}

// runPartitions makes partitions ahead where retention will drop them, about ten of them: each costs the statements
// that look into all a little.
func (a *App) runPartitions(ctx context.Context) error {
	days := (a.cfg.Retention + livePartitions - 1) / livePartitions
	for a.cfg.Retention > 0 && ctx.Err() == nil {
		if err := a.Deliveries.Advance(ctx, days); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "making partitions failed", "error", err)
		}
		pause(ctx, partitionsInterval)
	}
	return nil
}

// runDeleting deletes what retention dropped, a table a minute.
func (a *App) runDeleting(ctx context.Context) error {
	for a.cfg.Retention > 0 && ctx.Err() == nil {
		if err := a.Deliveries.DeleteDropped(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "deleting old events failed", "error", err)
		}
		pause(ctx, partitionsInterval)
	}
	return nil
}

// Now returns the database's time.
func (a *App) Now() time.Time { return a.db.Now() }
