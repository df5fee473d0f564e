package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "serve", Short: "serve the API (the default)", Args: cobra.NoArgs}
	demo := cmd.Flags().Bool("demo", false, "make a demo supplier and print how to use it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, log, err := app.Configure(app.Environment(), config.ForAPI, cmd.ErrOrStderr())
		if err != nil {
			return configFault{err}
		}
		var started func(context.Context, *app.App, string) error
		if *demo {
			if started, err = demonstrate(cmd, cfg); err != nil {
				return failure{err}
			}
		}
		if err := app.ServeAPI(cmd.Context(), cfg, log, started); err != nil {
			return failure{err}
		}
		return nil
	}
	return cmd
}
