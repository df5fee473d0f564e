package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
)

func healthcheckCommand() *cobra.Command {
	return &cobra.Command{Use: "healthcheck", Short: "exit 0 when the api of this configuration is ready",
		Args: cobra.NoArgs,
		RunE: configured(func(cmd *cobra.Command, _ []string, cfg *config.Config, _ *slog.Logger) (any, error) {
			return app.APIHealth(cmd.Context(), cfg)
		})}
}
