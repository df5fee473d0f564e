package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
)

func verifyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "verify", Short: "account for every request and delivery, and name every fault",
		Args: cobra.NoArgs}
	cmd.RunE = operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		p := newProgress(cmd)
		defer p.end()
		return a.Verify(ctx, p.show)
	})
	return cmd
}
