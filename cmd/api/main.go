// Command api serves the HTTP API and holds the operator's commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/supplyhub/supplyhub/internal/database/sqlite" // the embedded default
	_ "github.com/supplyhub/supplyhub/internal/queue/embedded"  // the same
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
