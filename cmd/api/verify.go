package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
)

func verifyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "verify", Short: "check every request and delivery for inconsistencies",
		Args: cobra.NoArgs}
	cmd.RunE = operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		return a.Verify(ctx)
	})
	return cmd
}
