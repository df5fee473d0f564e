package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
)

func notifyCommand() *cobra.Command {
	test := &cobra.Command{Use: "test", Short: "send a signed event of type webhook.test to OPERATOR_WEBHOOK_URL",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(cmd); err != nil {
				return err
			}
			cfg, _, err := app.Configure(app.Environment(), config.ForCommand, cmd.ErrOrStderr())
			if err != nil {
				return configFault{err}
			}
			sent, err := app.TestNotice(cmd.Context(), cfg)
			if err != nil {
				return failure{err}
			}
			if err := print(cmd, sent); err != nil || sent.Taken() {
				return err
			}
			return failure{fmt.Errorf("OPERATOR_WEBHOOK_URL answers with status %d", sent.Status)}
		}}
	return group("notify", "try out where operator events go", test)
}
