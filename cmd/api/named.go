package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/tracker"
)

// supplierOf returns the id of the supplier that is named; an empty name asks for none.
func supplierOf(ctx context.Context, a *app.App, named string) (string, error) {
	if named == "" {
		return "", nil
	}
	suppliers, err := a.Suppliers.ListSuppliers(ctx)
	if err != nil {
		return "", err
	}
	names := lists.Pairs(suppliers, func(s supplierauth.Supplier) (id, name string) { return s.ID, s.Name })
	return idOf(ctx, names, "supplier", "supplier_id", named)
}

// clientOf returns the id of the tracker client that is named.
func clientOf(ctx context.Context, a *app.App, named string) (string, error) {
	clients, err := a.Trackers.ListClients(ctx)
	if err != nil {
		return "", err
	}
	names := lists.Pairs(clients, func(c tracker.Client) (id, name string) { return c.ID, c.Name })
	return idOf(ctx, names, "tracker client", "tracker_client", named)
}

// idOf returns the id of the one that is named, by its id or by a name that only one has, and notes it for the log.
func idOf(ctx context.Context, names map[string]string, kind, note, named string) (string, error) {
	if _, found := names[named]; found {
		return named, nil
	}
	found := slices.DeleteFunc(slices.Sorted(maps.Keys(names)),
		func(id string) bool { return !strings.EqualFold(names[id], named) })
	switch len(found) {
	case 0:
		return "", errs.New(errs.NotFound, "There is no "+kind+" "+named)
	case 1:
		logctx.Note(ctx, slog.String(note, found[0]))
		return found[0], nil
	default:
		return "", errs.New(errs.Invalid, fmt.Sprintf("%d %ss have the name %s: give an id, %s", len(found), kind, named,
			strings.Join(found, " or ")))
	}
}

// choice is a flag that takes one of a few values.
type choice[S ~string] struct {
	value   S
	allowed []string
}

// choiceFlag adds a flag of the allowed values, which are completed too.
func choiceFlag[S ~string](cmd *cobra.Command, flags *pflag.FlagSet, name, short string, value S, usage string,
	allowed ...S) *choice[S] {
	c := &choice[S]{value, lists.Of(allowed, func(s S) string { return string(s) })}
	flags.VarP(c, name, short, usage)
	completion := cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(name, completion); err != nil {
		panic(err) // a flag that was not added
	}
	return c
}

// String returns the chosen value.
func (c *choice[S]) String() string { return string(c.value) }

// Set chooses a value.
func (c *choice[S]) Set(text string) error {
	if !slices.Contains(c.allowed, text) {
		return errors.New("must be one of " + strings.Join(c.allowed, ", "))
	}
	c.value = S(text)
	return nil
}

// Type returns how --help names the values.
func (c *choice[S]) Type() string { return strings.Join(c.allowed, "|") }
