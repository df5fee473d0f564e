package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

func migrateCommand() *cobra.Command {
	return &cobra.Command{Use: "migrate", Short: "bring the database schema to this version", Args: cobra.NoArgs,
		RunE: operateOn(app.Build, loud, func(ctx context.Context, a *app.App, _ []string) (any, error) {
			return map[string]string{"status": "migrated"}, a.Migrate(ctx)
		})}
}

// loud shows the migration's log: its waits, and how long each step took.
func loud(log *slog.Logger, _ *config.Config) *slog.Logger { return log }

func keysCommand() *cobra.Command {
	generate := &cobra.Command{Use: "generate", Short: "print a fresh value for JWT_SIGNING_KEYS", Args: cobra.NoArgs,
		Example: "  api keys generate\n  api keys generate --secrets"}
	secrets := generate.Flags().Bool("secrets", false, "print a value for SECRETS_KEY instead")
	generate.RunE = func(cmd *cobra.Command, _ []string) error {
		if *secrets {
			return printGenerated(cmd, supplierauth.GenerateSecretsKey)
		}
		return printGenerated(cmd, supplierauth.GenerateSigningKey)
	}
	return group("keys", "make keys", generate)
}

func secretsCommand() *cobra.Command {
	return group("secrets", "make webhook signing secrets", &cobra.Command{
		Use: "generate", Short: "print a fresh whsec_ secret for WEBHOOK_SIGNING_SECRETS", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return printGenerated(cmd, app.GenerateWebhookSecret) },
	})
}

// printGenerated prints the bare value, so that it can be assigned in a shell, or an object with -o json.
func printGenerated(cmd *cobra.Command, generate func() (string, error)) error {
	value, err := generate()
	if err != nil {
		return failure{err}
	}
	if asJSON(cmd) {
		return print(cmd, map[string]string{"value": value})
	}
	fmt.Fprintln(cmd.OutOrStdout(), value)
	return nil
}
