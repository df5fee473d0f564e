package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/materials/operator"
)

var errNotOver = errors.New("--before must be a time that is over, such as 2026-11-20T12:00:00Z or 2026-11-20")

func retentionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "run", Args: cobra.NoArgs,
		Example: "  api retention run --days 90\n  api retention run --before 2026-01-01",
		Short:   "delete finished requests, their estimates and their deliveries that are older"}
	days := cmd.Flags().Int("days", 0, "how many days are kept, at least 1; RETENTION_DAYS when neither is given")
	text := cmd.Flags().String("before", "",
		"delete what was made and last changed before this time (RFC 3339) or day (YYYY-MM-DD, UTC)")
	var before time.Time
	run := operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		old := operator.Before(before)
		if before.IsZero() {
			kept := cmp.Or(*days, a.RetentionDays())
			if kept == 0 {
				return nil, errors.New("how many days are kept? Give --days or --before, or set RETENTION_DAYS")
			}
			old = operator.Days(a.Now(), kept)
		}
		if old.Before.After(a.Now()) { // one to come would take what is made meanwhile
			return nil, usage{errNotOver}
		}
		pruned, err := a.Requests.Prune(ctx, old)
		if err != nil && pruned.Requests > 0 {
			err = fmt.Errorf("%w (%d requests are deleted)", err, pruned.Requests)
		}
		return pruned, err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		switch {
		case cmd.Flags().Changed("days") && cmd.Flags().Changed("before"):
			return errors.New("give --days or --before, not both")
		case cmd.Flags().Changed("days") && *days < 1:
			return errors.New("--days must be at least 1")
		case cmd.Flags().Changed("before"):
			if before, err = parseBefore(*text); err != nil {
				return err
			}
		}
		return run(cmd, args)
	}
	return group("retention", "delete what is old", cmd)
}

func parseBefore(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, errNotOver
}
