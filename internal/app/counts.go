package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/webhooks"
)

const foldInterval = time.Second

func countedLists() []database.List { return slices.Concat(materials.Lists(), webhooks.Lists()) }

// runCounts adds what was noted to the lists' counts, once a second: lists are right without it, and slower.
func (a *App) runCounts(ctx context.Context) error {
	lists := countedLists()
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

// miscounts names every total that is not how many rows there are; recount counts these anew before.
func (a *App) miscounts(ctx context.Context, recount bool, done func(n int64)) (faults []string, err error) {
	counted := int64(0)
	for _, list := range countedLists() {
		rows := int64(0)
		wrong, err := a.db.Miscounts(ctx, list, func(n int64) {
			rows = n
			done(counted + n)
		})
		if err != nil {
			return nil, err
		}
		for _, m := range wrong {
			if !recount {
				faults = append(faults, misCounted(m))
				continue
			}
			if err := a.recount(ctx, list, m.Series); err != nil {
				return nil, err
			}
		}
		counted += rows
	}
	return faults, nil
}

// recount waits for the process that adds to the counts; each time takes it a moment.
func (a *App) recount(ctx context.Context, list database.List, series database.Series) error {
	for {
		done, err := a.db.Recount(ctx, list, series)
		if done || err != nil {
			return err
		}
		pause(ctx, foldInterval/10)
	}
}

func misCounted(m database.Miscount) string {
	of, status := m.List, m.Status
	if m.Owner != "" {
		of += " of " + m.Owner
	}
	if status == "" {
		status = "any status"
	}
	return fmt.Sprintf("the total of %s in %s is kept as %d, there are %d: api verify --recount counts them anew", of,
		status, m.Kept, m.There)
}
