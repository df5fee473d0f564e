package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
)

func verifyCommand() *cobra.Command {
	return &cobra.Command{Use: "verify", Short: "account for every request and delivery, and name every fault",
		Args: cobra.NoArgs,
		RunE: operate(func(ctx context.Context, a *app.App, _ []string) (any, error) { return a.Verify(ctx) })}
}
