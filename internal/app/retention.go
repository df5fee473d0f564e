package app

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/materials/operator"
)

const pruneInterval = time.Hour

// Prune deletes the finished requests that were made and last changed before the given time. done is called with what
// is deleted so far.
func (a *App) Prune(ctx context.Context, before time.Time, done func(operator.Pruned)) (operator.Pruned, error) {
	return a.requests.Prune(ctx, before, done)
}

// RetentionDays returns RETENTION_DAYS; 0: everything is kept.
func (a *App) RetentionDays() int { return a.cfg.Retention }

// runRetention prunes once an hour.
func (a *App) runRetention(ctx context.Context) error {
	for a.cfg.Retention > 0 && ctx.Err() == nil {
		before := a.db.Now().AddDate(0, 0, -a.cfg.Retention)
		p, err := a.Prune(database.ForMaintenance(ctx), before, func(operator.Pruned) {})
		if err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "retention failed", "error", err)
		} else if p != (operator.Pruned{}) {
			a.log.InfoContext(ctx, "old records are deleted", "requests", p.Requests, "events", p.Events)
		}
		pause(ctx, pruneInterval)
	}
	return nil
}

// Now returns the database's time.
func (a *App) Now() time.Time { return a.db.Now() }
