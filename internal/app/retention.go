package app

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

const pruneInterval = time.Hour

// Pruned is how much was deleted.
type Pruned struct {
	Requests int64 `json:"requests"`
	Events   int64 `json:"events"` // each with its deliveries and attempts
}

// Prune deletes the finished requests and webhook events that are older than so many days.
func (a *App) Prune(ctx context.Context, days int) (p Pruned, err error) {
	before := a.now().AddDate(0, 0, -days)
	if p.Events, err = a.Deliveries.Prune(ctx, before); err != nil {
		return p, err
	}
	p.Requests, err = a.materials.Prune(ctx, before)
	return p, err
}

// RetentionDays is RETENTION_DAYS; 0: everything is kept.
func (a *App) RetentionDays() int { return a.cfg.Retention }

// runRetention prunes once an hour.
func (a *App) runRetention(ctx context.Context) error {
	for a.cfg.Retention > 0 && ctx.Err() == nil {
		p, err := a.Prune(database.ForMaintenance(ctx), a.cfg.Retention)
		if err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "retention failed", "error", err)
		} else if p != (Pruned{}) {
			a.log.InfoContext(ctx, "old records are deleted", "requests", p.Requests, "events", p.Events)
		}
		pause(ctx, pruneInterval)
	}
	return nil
}
