package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/terminal"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

// failure is an error of a command that was called rightly; every other error is bad usage.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// usage is bad usage that shows only when the service is there.
type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

// configFault is a configuration that cannot work: each fault on its own line, exit code 2.
type configFault struct{ error }

func (f configFault) Unwrap() error { return f.error }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stdout, stderr = terminal.New(stdout), terminal.New(stderr)
	root := newRoot()
	root.SetArgs(negativeValues(args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	called, err := root.ExecuteContextC(ctx)
	if lost := terminal.Lost(stdout); lost != nil {
		err = failure{lost}
	}
	if err == nil {
		return 0
	}
	_, isFailure := errors.AsType[failure](err)
	_, isConfig := errors.AsType[configFault](err)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "error: interrupted:", explain(err))
		return exitFailure
	case isConfig:
		fmt.Fprintf(stderr, "the configuration is not valid:\n%v\n", err)
		return exitUsage
	case isFailure:
		fmt.Fprintln(stderr, "error:", explain(err))
		return exitFailure
	default:
		fmt.Fprintf(stderr, "usage: %v: call it as %s (see --help)\n", err, called.UseLine())
		return exitUsage
	}
}

// negativeValues keeps a negative value of `settings set`, and a request's negative id, from being read as a flag: it
// goes behind the --.
func negativeValues(args []string) []string {
	if !slices.Contains(args, "request") && (!slices.Contains(args, "settings") || !slices.Contains(args, "set")) {
		return args
	}
	for i, arg := range args {
		_, err := strconv.ParseFloat(arg, 64)
		if err == nil && strings.HasPrefix(arg, "-") && (i == 0 || !strings.HasPrefix(args[i-1], "-")) {
			return append(slices.Delete(slices.Clone(args), i, i+1), "--", arg)
		}
	}
	return args
}

func newRoot() *cobra.Command {
	serve := serveCommand()
	root := &cobra.Command{
		Use:           "api",
		Short:         "supplyhub: the HTTP API and its operator commands",
		Args:          cobra.NoArgs,
		RunE:          serve.RunE,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       app.Version(),
	}
	root.Flags().AddFlagSet(serve.Flags())
	choiceFlag(root, root.PersistentFlags(), "output", "o", "text", "output of commands", "text", "json")
	root.AddCommand(serve, migrateCommand(), keysCommand(), secretsCommand(), supplierCommand(), receiverCommand(),
		rateCommand(), requestCommand(), deliveryCommand(), trackerCommand(), settingsCommand(), verifyCommand(),
		retentionCommand(), listenCommand(), scoreboardCommand(), healthcheckCommand(), doctorCommand(), topCommand(),
		backupCommand(), restoreCommand(), notifyCommand())
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		if cmd == root || cmd == serve {
			fmt.Fprintln(cmd.OutOrStdout(), "\nEnvironment variables:")
			_ = config.PrintHelp(cmd.OutOrStdout())
		}
	})
	return root
}

// group makes a command that only holds others: called by itself it is bad usage.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%q needs a command", cmd.CommandPath())
	}}
	cmd.AddCommand(children...)
	return cmd
}

// opening builds the service for a command.
type opening func(ctx context.Context, cfg *config.Config, log *slog.Logger) (*app.App, error)

// operate runs fn on the service as it is, whose schema must be this build's, and prints what it returns.
func operate(
	fn func(ctx context.Context, a *app.App, args []string) (any, error),
) func(*cobra.Command, []string) error {
	return operateOn(app.Open, quiet, fn)
}

// subject is whom commands are about: the first argument names one, by its id or its name.
type subject struct {
	idOf    func(ctx context.Context, a *app.App, named string) (string, error)
	example string // of a command about it: COMMAND is its name
}

// command makes a command about one of them.
func (s subject) command(name, short string, fn func(ctx context.Context, a *app.App, id string) (any, error),
) *cobra.Command {
	return &cobra.Command{Use: name + " ID", Short: short, Args: cobra.ExactArgs(1),
		Example: "  " + strings.ReplaceAll(s.example, "COMMAND", name),
		RunE: operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
			id, err := s.idOf(ctx, a, args[0])
			if err != nil {
				return nil, err
			}
			return fn(ctx, a, id)
		})}
}

// rotation makes a command that makes a new key or secret of one of them.
func (s subject) rotation(name, short string,
	rotate func(ctx context.Context, a *app.App, id string, overlap time.Duration) (credentials, error)) *cobra.Command {
	var overlap time.Duration
	cmd := s.command(name, short, func(ctx context.Context, a *app.App, id string) (any, error) {
		made, err := rotate(ctx, a, id, overlap)
		made.ID = id
		return made, err
	})
	cmd.Example += " --overlap 48h"
	cmd.Flags().DurationVar(&overlap, "overlap", defaultOverlap, "how long the old one keeps working")
	return cmd
}

// operateOn is operate with another opening and log.
func operateOn(open opening, logs func(*slog.Logger, *config.Config) *slog.Logger,
	fn func(ctx context.Context, a *app.App, args []string) (any, error),
) func(*cobra.Command, []string) error {
	return configured(func(cmd *cobra.Command, args []string, cfg *config.Config, log *slog.Logger) (
		result any, err error) {
		for _, name := range []string{"supplier", "since"} { // a script's unset variable would choose everything
			if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
				return nil, usage{errors.New("--" + name + " is given without a value")}
			}
		}
		a, err := open(cmd.Context(), cfg, logs(log, cfg))
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, a.Close()) }()
		action := auditOf(cmd)
		if action == "" {
			return fn(cmd.Context(), a, args)
		}
		return app.AuditCommand(cmd.Context(), log, action, args, givenFlags(cmd),
			func(ctx context.Context) (any, error) { return fn(ctx, a, args) })
	})
}

// configured runs fn with the configuration of a command and prints what it returns.
func configured(fn func(cmd *cobra.Command, args []string, cfg *config.Config, log *slog.Logger) (any, error),
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cfg, log, err := app.Configure(app.Environment(), config.ForCommand, cmd.ErrOrStderr())
		if err != nil {
			return configFault{err}
		}
		result, err := fn(cmd, args, cfg, log)
		if bad, is := errors.AsType[usage](err); is {
			return bad
		}
		if err != nil {
			return failure{err}
		}
		return print(cmd, result)
	}
}

// quiet keeps a command's standard error for what went wrong, unless more was asked for.
func quiet(log *slog.Logger, cfg *config.Config) *slog.Logger {
	if cfg.LogLevel == "debug" {
		return log
	}
	return slog.New(slog.DiscardHandler)
}

// asJSON reports whether the command prints for programs.
func asJSON(cmd *cobra.Command) bool { return cmd.Flag("output").Value.String() == "json" }

// print writes result as JSON, or as text a person reads: a table or a page.
func print(cmd *cobra.Command, result any) error {
	if _, printed := result.(*list); printed {
		return nil
	}
	if asJSON(cmd) {
		return encoder(cmd.OutOrStdout(), "").Encode(whole(result))
	}
	return printText(cmd.OutOrStdout(), result)
}

// encoder writes JSON as people read it, each line but the first behind the prefix.
func encoder(w io.Writer, prefix string) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, "  ")
	return e
}

// required marks flags whose absence is bad usage.
func required(cmd *cobra.Command, flags ...string) *cobra.Command {
	for _, f := range flags {
		if err := cmd.MarkFlagRequired(f); err != nil {
			panic(err) // a flag that this program does not define
		}
	}
	return cmd
}
