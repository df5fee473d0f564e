package main

import (
	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
)

func healthcheckCommand() *cobra.Command {
	return &cobra.Command{Use: "healthcheck", Short: "exit 0 when the api of this configuration is ready",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(cmd); err != nil {
				return err
			}
			cfg, _, err := app.Configure(app.Environment(), config.ForCommand, cmd.ErrOrStderr())
			if err != nil {
				return configFault{err}
			}
			health, err := app.APIHealth(cmd.Context(), cfg)
			if err != nil {
				return failure{err}
			}
			return print(cmd, health)
		}}
}
