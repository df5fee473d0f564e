package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// mostCompletions is how many ids a shell is offered.
const mostCompletions = 50

// ids lists what a shell may complete an argument or a flag with.
type ids func(ctx context.Context, a *app.App) ([]cobra.Completion, error)

// completing offers the ids for the first argument, and for every one where several are taken. A database that cannot
// be read offers nothing: completion has no place for an error.
func completing(cmd *cobra.Command, several bool, list ids) *cobra.Command {
	offer := list.offer()
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		if len(args) > 0 && !several {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offer(cmd, args, typed)
	}
	return cmd
}

// completingFlag offers the ids for a flag.
func completingFlag(cmd *cobra.Command, flag string, list ids) {
	if err := cmd.RegisterFlagCompletionFunc(flag, list.offer()); err != nil {
		panic(err) // a flag that this program does not define
	}
}

func (list ids) offer() cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		cfg, log, err := app.Configure(app.Environment(), config.ForCommand, cmd.ErrOrStderr())
		if err != nil {
			return nil, none
		}
		found, err := onApp(cmd.Context(), app.Open, cfg, quiet(log, cfg),
			func(a *app.App) (any, error) { return list(cmd.Context(), a) })
		if err != nil {
			return nil, none
		}
		completions, _ := found.([]cobra.Completion)
		return completions[:min(len(completions), mostCompletions)], none
	}
}

func supplierIDs(ctx context.Context, a *app.App) ([]cobra.Completion, error) {
	suppliers, err := a.Suppliers.ListSuppliers(ctx)
	return completions(suppliers, err, func(i int) (string, string) { return suppliers[i].ID, suppliers[i].Name })
}

func clientIDs(ctx context.Context, a *app.App) ([]cobra.Completion, error) {
	clients, err := a.Trackers.ListClients(ctx)
	return completions(clients, err, func(i int) (string, string) { return clients[i].ID, clients[i].Name })
}

// supplierOf returns the id of the supplier that is named; an empty name is none that was asked for.
func supplierOf(ctx context.Context, a *app.App, named string) (string, error) {
	if named == "" {
		return "", nil
	}
	return ids(supplierIDs).named(ctx, a, "supplier", "supplier_id", named)
}

// clientOf returns the id of the tracker client that is named.
func clientOf(ctx context.Context, a *app.App, named string) (string, error) {
	return ids(clientIDs).named(ctx, a, "tracker client", "tracker_client", named)
}

// named returns the id of the one that is named, by its id or by a name that only one has, and notes it for
// the log.
func (list ids) named(ctx context.Context, a *app.App, kind, note, named string) (string, error) {
	all, err := list(ctx, a)
	if err != nil {
		return "", err
	}
	var found, near []string
	for _, one := range all {
		id, name, _ := strings.Cut(one, "\t")
		if id == named {
			return id, nil
		}
		if strings.EqualFold(name, named) {
			found = append(found, id)
		}
		near = append(near, id, name)
	}
	switch len(found) {
	case 0:
		return "", errs.New(errs.NotFound, "There is no "+kind+" "+named+didYouMean(named, near...))
	case 1:
		logctx.Note(ctx, slog.String(note, found[0]))
		return found[0], nil
	default:
		return "", errs.New(errs.Invalid, fmt.Sprintf("%d %ss have the name %s: give an id, %s", len(found), kind, named,
			strings.Join(found, " or ")))
	}
}

func serviceNames(ctx context.Context, a *app.App) ([]cobra.Completion, error) {
	services, err := a.Rates.List(ctx)
	return completions(services, err, func(i int) (string, string) { return services[i].Name, services[i].Carrier })
}

func completions[T any](list []T, err error, describe func(i int) (id, about string)) ([]cobra.Completion, error) {
	offered := make([]cobra.Completion, len(list))
	for i := range list {
		offered[i] = cobra.CompletionWithDesc(describe(i))
	}
	return offered, err
}
