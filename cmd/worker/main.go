// Command worker computes delivery estimates and delivers them. Several workers share the work.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
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
  worker --version    print the version

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
	var err error
	switch command := strings.Join(args, " "); command {
	case "":
		return configured(config.ForWorker, stderr,
			func(cfg *config.Config, log *slog.Logger) error { return app.RunWorker(ctx, cfg, log) })
	case "healthcheck":
		return configured(config.ForCommand, stderr, func(cfg *config.Config, _ *slog.Logger) error {
			_, err := app.WorkerHealth(ctx, cfg)
			return err
		})
	case "doctor", "doctor -o json":
		found := app.DoctorWorker(ctx, app.Environment())
		write := found.WriteText
		if command != "doctor" {
			write = found.WriteJSON
		}
		if err = write(stdout); err == nil && !found.OK {
			err = errors.New("something is broken")
		}
	case "--help", "-h", "help":
		fmt.Fprint(stdout, usage)
		err = config.PrintHelp(stdout)
	case "--version":
		fmt.Fprintln(stdout, "worker version", app.Version())
	default:
		fmt.Fprintln(stderr, "usage: worker takes no argument but healthcheck, or doctor and its -o json (see --help)")
		return 2
	}
	return exit(cmp.Or(terminal.Lost(stdout), err), stderr)
}

// configured runs fn with the worker's configuration.
func configured(role config.Role, stderr io.Writer, fn func(*config.Config, *slog.Logger) error) int {
	cfg, log, err := app.Configure(app.Environment(), role, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "the configuration is not valid:\n%v\n", err)
		return 2
	}
	return exit(fn(cfg, log), stderr)
}

// exit returns the exit code, and says what went wrong.
func exit(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "error:", errs.Text(err))
	return 1
}
