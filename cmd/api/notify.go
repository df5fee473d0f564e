package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
)

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
