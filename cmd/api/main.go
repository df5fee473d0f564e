// Command api serves the HTTP API and holds the operator's commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
	_ "github.com/supplyhub/supplyhub/internal/database/sqlite" // the embedded default
	_ "github.com/supplyhub/supplyhub/internal/queue/embedded"  // the same
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "serve", Short: "serve the API (the default)", Args: cobra.NoArgs}
	demo := cmd.Flags().Bool("demo", false, "make a demo supplier and print how to use it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, log, err := app.Configure(app.Environment(), config.ForAPI, cmd.ErrOrStderr())
		if err != nil {
			return configFault{err}
		}
		started := func(context.Context, *app.App, string) error { return nil }
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
