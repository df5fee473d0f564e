package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
)

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
