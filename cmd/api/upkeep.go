package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/materials/operator"
)

const notOver = "--before must be a time that is over, such as 2026-11-20T12:00:00Z or 2026-11-20"

func retentionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "run", Args: cobra.NoArgs,
		Example: "  api retention run --days 90\n  api retention run --before 2026-01-01",
		Short:   "delete finished requests, their estimates and their deliveries that are older"}
	days := cmd.Flags().Int("days", 0, "how many days are kept, 1 to 36500; RETENTION_DAYS when neither is given")
	text := cmd.Flags().String("before", "",
		"delete what was made and last changed before this time (RFC 3339) or day (YYYY-MM-DD, UTC)")
	var before time.Time
	run := operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		old := operator.Before(before)
		if *text == "" {
			kept := cmp.Or(*days, a.RetentionDays())
			if kept == 0 {
				return nil, usage{errors.New("how many days are kept? Give --days or --before, or set RETENTION_DAYS")}
			}
			old = operator.Days(a.Now(), kept)
		}
		if old.Before.After(a.Now()) { // one to come would take what is made meanwhile
			return nil, usage{errs.New(errs.Invalid, notOver)}
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
		case cmd.Flags().Changed("days") && (*days < 1 || *days > config.LongestRetention):
			return fmt.Errorf("--days must be 1 to %d", config.LongestRetention)
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
	return time.Time{}, errors.New(notOver)
}

func verifyCommand() *cobra.Command {
	return &cobra.Command{Use: "verify", Short: "check every request and delivery for inconsistencies",
		Args: cobra.NoArgs, RunE: operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
			return a.Verify(ctx)
		})}
}

func backupCommand() *cobra.Command {
	return &cobra.Command{Use: "backup FILE", Args: cobra.ExactArgs(1),
		Example: "  api backup /backups/supplyhub-2026-11-23.tar",
		Short:   "copy database and keys into one tar, also while the service runs",
		RunE: operateOn(app.OpenForBackup, quiet, func(ctx context.Context, a *app.App, args []string) (any, error) {
			return a.Backup(ctx, args[0])
		})}
}

func restoreCommand() *cobra.Command {
	return &cobra.Command{Use: "restore FILE", Args: cobra.ExactArgs(1),
		Example: "  DATA_DIR=/srv/empty api restore /backups/supplyhub-2026-11-23.tar",
		Short:   "put a backup into an empty DATA_DIR",
		RunE: configured(func(cmd *cobra.Command, args []string, cfg *config.Config, log *slog.Logger) (any, error) {
			return app.Restore(cmd.Context(), cfg, quiet(log, cfg), args[0])
		})}
}

func doctorCommand() *cobra.Command {
	return &cobra.Command{Use: "doctor", Short: "check everything that the api needs, and say what to do",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := app.DoctorAPI(cmd.Context(), app.Environment())
			if err := print(cmd, &found); err != nil {
				return failure{err}
			}
			if !found.OK {
				return failure{errors.New("something is broken")}
			}
			return nil
		}}
}

func healthcheckCommand() *cobra.Command {
	return &cobra.Command{Use: "healthcheck", Short: "exit 0 when the api of this configuration is ready",
		Args: cobra.NoArgs,
		RunE: configured(func(cmd *cobra.Command, _ []string, cfg *config.Config, _ *slog.Logger) (any, error) {
			return app.APIHealth(cmd.Context(), cfg)
		})}
}

func notifyCommand() *cobra.Command {
	test := &cobra.Command{Use: "test", Short: "send a signed event of type webhook.test to OPERATOR_WEBHOOK_URL",
		Args: cobra.NoArgs,
		RunE: configured(func(cmd *cobra.Command, _ []string, cfg *config.Config, _ *slog.Logger) (any, error) {
			sent, err := app.TestNotice(cmd.Context(), cfg)
			if err != nil {
				return nil, err
			}
			if err := print(cmd, sent); err != nil || sent.Taken() {
				return (*list)(nil), err
			}
			return nil, fmt.Errorf("OPERATOR_WEBHOOK_URL answers with status %d", sent.Status)
		})}
	return group("notify", "try out where operator events go", test)
}
