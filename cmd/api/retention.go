package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
)

func retentionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "run", Short: "delete finished requests, their estimates and their deliveries that are older than --days", Args: cobra.NoArgs}
	days := cmd.Flags().Int("days", 0, "how many days are kept, at least 1; RETENTION_DAYS when it is not given")
	var kept int
	run := operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		if kept == 0 {
			kept = a.RetentionDays()
		}
		if kept == 0 {
			return nil, errors.New("how many days are kept? Give --days or set RETENTION_DAYS")
		}
		return a.Prune(ctx, kept)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if kept = *days; cmd.Flags().Changed("days") && kept < 1 {
			return errors.New("--days must be at least 1")
		}
		return run(cmd, args)
	}
	return group("retention", "delete what is old", cmd)
}
