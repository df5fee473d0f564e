// Command worker computes delivery estimates and delivers them. Several workers share the work.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/terminal"
)

const usage = `worker computes delivery estimates and delivers them. Several workers share the work.

  worker              work until SIGTERM
  worker healthcheck  exit 0 when the worker of this configuration is ready
  worker doctor       check everything that the worker needs, and say what to do; -o json for programs

Environment variables:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stdout, stderr = terminal.New(stdout), terminal.New(stderr)
	switch {
	case len(args) == 0:
		return configured(config.ForWorker, stderr,
			func(cfg *config.Config, log *slog.Logger) error { return app.RunWorker(ctx, cfg, log) })
	case len(args) == 1 && args[0] == "healthcheck":
		return configured(config.ForCommand, stderr, func(cfg *config.Config, _ *slog.Logger) error {
			_, err := app.WorkerHealth(ctx, cfg)
			return err
		})
	case args[0] == "doctor":
		return doctor(ctx, args[1:], stdout, stderr)
	default:
		return option(args, stdout, stderr)
	}
}

// configured runs fn with the worker's configuration.
func configured(role config.Role, stderr io.Writer, fn func(*config.Config, *slog.Logger) error) int {
	cfg, log, err := app.Configure(app.Environment(), role, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "the configuration is not valid:\n%v\n", err)
		return 2
	}
	if err := fn(cfg, log); err != nil {
		fmt.Fprintln(stderr, "error:", errs.Text(err))
		return 1
	}
	return 0
}

// doctor returns 1 when something that the worker needs is broken.
func doctor(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	asJSON := slices.Equal(args, []string{"-o", "json"})
	if len(args) > 0 && !asJSON {
		fmt.Fprintln(stderr, "usage: worker doctor takes no argument but -o json")
		return 2
	}
	found := app.DoctorWorker(ctx, app.Environment())
	write := found.WriteText
	if asJSON {
		write = found.WriteJSON
	}
	err := write(stdout)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "error:", errs.Text(err))
		return 1
	case !found.OK:
		fmt.Fprintln(stderr, "error: something is broken")
		return 1
	default:
		return 0
	}
}

func option(args []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 1 && (args[0] == "--help" || args[0] == "-h"):
		fmt.Fprint(stdout, usage)
		if err := config.PrintHelp(stdout); err != nil {
			return 1
		}
		return 0
	case len(args) == 1 && args[0] == "--version":
		fmt.Fprintln(stdout, "worker version", app.Version())
		return 0
	default:
		fmt.Fprintf(stderr, "usage: worker takes no argument but healthcheck or doctor (see --help)\n")
		return 2
	}
}
