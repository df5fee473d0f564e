package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

const defaultOverlap = 24 * time.Hour

func supplierCommand() *cobra.Command {
	supplier := subject{supplierOf, "api supplier COMMAND Acme"}
	// becomes makes a command that changes the supplier's state and prints the new one
	becomes := func(name, short, status string, do func(context.Context, *app.App, string) error) *cobra.Command {
		return supplier.command(name, short, func(ctx context.Context, a *app.App, id string) (any, error) {
			return map[string]string{"id": id, "status": status}, do(ctx, a, id)
		})
	}
	return group("supplier", "manage suppliers, by their ids or names", supplierCreate(), supplierList(),
		supplierUpdate(supplier),
		supplier.rotation("rotate-key", "make a new API key; the old one works until the overlap ends",
			func(ctx context.Context, a *app.App, id string, overlap time.Duration) (made credentials, err error) {
				made.APIKey, err = a.Suppliers.RotateAPIKey(ctx, id, overlap)
				return made, err
			}),
		supplier.rotation("rotate-webhook-secret", "make a new webhook secret; both sign until the overlap ends",
			func(ctx context.Context, a *app.App, id string, overlap time.Duration) (made credentials, err error) {
				made.WebhookSecret, err = a.Suppliers.RotateWebhookSecret(ctx, id, overlap)
				return made, err
			}),
		supplier.command("portal-link", "print a portal link that works once, for 5 minutes",
			func(ctx context.Context, a *app.App, id string) (any, error) { return a.PortalLink(ctx, id) }),
		supplier.command("revoke-sessions", "end all sessions of a supplier, portal included",
			func(ctx context.Context, a *app.App, id string) (any, error) {
				ended, err := a.Suppliers.RevokeSessions(ctx, id)
				return map[string]any{"id": id, "sessions_ended": ended}, err
			}),
		becomes("pause", "keep its receiver's deliveries until it is resumed", "paused",
			func(ctx context.Context, a *app.App, id string) error { return a.Receivers.PauseByOperator(ctx, id) }),
		becomes("resume", "end any pause of its receiver and send what waits", "resumed",
			func(ctx context.Context, a *app.App, id string) error { return a.Receivers.ResumeByOperator(ctx, id) }),
		becomes("deactivate", "end all sessions of a supplier and refuse its API key", "deactivated",
			func(ctx context.Context, a *app.App, id string) error { return a.Suppliers.Deactivate(ctx, id) }),
		becomes("activate", "let a deactivated supplier sign in again", "activated",
			func(ctx context.Context, a *app.App, id string) error { return a.Suppliers.Activate(ctx, id) }))
}

// supplierFlags are the flags that create and update share. Their values before are the defaults.
type supplierFlags struct {
	name, webhookURL, scopes string
	accessTTL, refreshTTL    time.Duration
	receiverConcurrency      int
}

func (f *supplierFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.name, "name", "", "name of the supplier")
	flags.StringVar(&f.webhookURL, "webhook-url", "",
		"address of its receiver: {id} in it becomes the request's id, "+
			"else /api/material-requests/ID/delivery-estimates is added")
	flags.DurationVar(&f.accessTTL, "access-ttl", f.accessTTL, "lifetime of access tokens")
	flags.DurationVar(&f.refreshTTL, "refresh-ttl", f.refreshTTL, "lifetime of refresh tokens")
	flags.StringVar(&f.scopes, "scopes", f.scopes, "scopes of its tokens, separated by commas")
	flags.IntVar(&f.receiverConcurrency, "receiver-concurrency", 0,
		"most calls to its receiver at once, 1 to 10000, instead of RECEIVER_CONCURRENCY")
}

func supplierCreate() *cobra.Command {
	f := supplierFlags{accessTTL: supplierauth.DefaultAccessTTL, refreshTTL: supplierauth.DefaultRefreshTTL,
		scopes: strings.Join(supplierauth.DefaultScopes(), ",")}
	cmd := &cobra.Command{Use: "create", Short: "create a supplier; its key and secret are shown once", Args: cobra.NoArgs,
		Example: `  api supplier create --name Acme
  api supplier create --name Acme --webhook-url https://hooks.acme.example \
    --scopes material-requests,products,webhooks`}
	cmd.RunE = operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		created, err := a.Suppliers.CreateSupplier(ctx, supplierauth.Supplier{
			Name: f.name, WebhookURL: f.webhookURL, AccessTTL: f.accessTTL, RefreshTTL: f.refreshTTL,
			Scopes:              config.List(f.scopes),
			ReceiverConcurrency: f.patch(cmd.Flags()).ReceiverConcurrency,
		})
		return credentials{ID: created.Supplier.ID, Name: created.Supplier.Name, APIKey: created.APIKey,
			WebhookSecret: created.WebhookSecret}, err
	})
	f.add(cmd.Flags())
	return required(cmd, "name")
}

// credentials are printed once.
type credentials struct {
	ID            string `json:"id"`
	Name          string `json:"name,omitempty"`
	APIKey        string `json:"api_key,omitempty"`
	WebhookSecret string `json:"webhook_secret,omitempty"`
}

func supplierList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "list suppliers and the states of their receivers", Args: cobra.NoArgs,
		Example: "  api supplier list",
		RunE: operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
			list, err := a.SupplierStatuses(ctx)
			return table{list, plain("id", "active", "state", "consecutive_failures:FAILURES", "waiting", "name",
				"webhook_url:RECEIVER")}, err
		})}
}

func supplierUpdate(supplier subject) *cobra.Command {
	var f supplierFlags // without defaults: a flag that is not given changes nothing
	var cmd *cobra.Command
	cmd = supplier.command("update", "change the given values of a supplier",
		func(ctx context.Context, a *app.App, id string) (any, error) {
			return a.Suppliers.UpdateSupplier(ctx, id, f.patch(cmd.Flags()))
		})
	cmd.Example = `  api supplier update Acme --webhook-url https://hooks.acme.example
  api supplier update Acme --scopes material-requests,products,webhooks,orders:read`
	f.add(cmd.Flags())
	cmd.PreRunE = somethingGiven
	return cmd
}

// patch holds only the flags that were given.
func (f *supplierFlags) patch(flags *pflag.FlagSet) supplierauth.SupplierPatch {
	return supplierauth.SupplierPatch{
		Name: given(flags, "name", f.name), WebhookURL: given(flags, "webhook-url", f.webhookURL),
		AccessTTL: given(flags, "access-ttl", f.accessTTL), RefreshTTL: given(flags, "refresh-ttl", f.refreshTTL),
		Scopes:              given(flags, "scopes", config.List(f.scopes)),
		ReceiverConcurrency: given(flags, "receiver-concurrency", f.receiverConcurrency),
	}
}

func given[T any](flags *pflag.FlagSet, name string, value T) *T {
	if !flags.Changed(name) {
		return nil
	}
	return &value
}

func receiverCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "list the suppliers' receivers, those that need attention first",
		Args: cobra.NoArgs,
		Long: `Lists the suppliers' receivers: first those that fail, then those that are paused, then the rest. OLDEST is
how long the oldest waiting delivery has waited.`,
		Example: "  api receiver list\n  api receiver list -o json | jq '.[] | select(.state != \"active\")'",
		RunE: operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
			list, err := a.ReceiverStatuses(ctx)
			return table{list, aged(a.Now(), "supplier_id:ID", "state", "consecutive_failures:FAILURES", "waiting",
				"oldest_waiting_at:OLDEST", "supplier_name:SUPPLIER", "last_error")}, err
		})}
	return group("receiver", "look at the suppliers' receivers", list)
}
