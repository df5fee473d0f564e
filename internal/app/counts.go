package app

import (
	"context"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/webhooks"
)

const foldInterval = time.Second

// runCounts adds what the triggers noted to the lists' counts, once a second: lists are right without it, and slower.
func (a *App) runCounts(ctx context.Context) error {
	lists := slices.Concat(materials.Lists(), webhooks.Lists())
	if err := a.db.SplitAll(database.ForMaintenance(ctx), lists...); err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "counting failed", "error", err)
	}
	for ctx.Err() == nil {
		more, err := a.db.Fold(database.ForMaintenance(ctx), lists...)
		if err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "counting failed", "error", err)
		}
		if !more {
			pause(ctx, foldInterval)
		}
	}
	return nil
}
