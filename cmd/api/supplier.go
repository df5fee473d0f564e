package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

const (
	defaultOverlap     = 24 * time.Hour
	defaultConcurrency = " (default RECEIVER_CONCURRENCY)"
)

func supplierCommand() *cobra.Command {
	return group("supplier", "manage suppliers, by their ids or names", supplierCreate(), supplierList(), supplierUpdate(),
		supplierRotateKey(), supplierRotateSecret(), supplierPortalLink(), supplierRevokeSessions(),
		supplierSwitch("pause", "keep everything for its receiver until it is resumed", "paused",
			func(ctx context.Context, a *app.App, id string) error { return a.Receivers.PauseByOperator(ctx, id) }),
		supplierSwitch("resume", "end any pause of its receiver and send what waits now", "resumed",
			func(ctx context.Context, a *app.App, id string) error { return a.Receivers.ResumeByOperator(ctx, id) }),
		supplierSwitch("deactivate", "end all sessions of a supplier and refuse its API key", "deactivated",
			func(ctx context.Context, a *app.App, id string) error { return a.Suppliers.Deactivate(ctx, id) }),
		supplierSwitch("activate", "let a deactivated supplier sign in again", "activated",
			func(ctx context.Context, a *app.App, id string) error { return a.Suppliers.Activate(ctx, id) }))
}

// supplierFlags are the flags that create and update share.
type supplierFlags struct {
	name, webhookURL, scopes string
	accessTTL, refreshTTL    time.Duration
	receiverConcurrency      int
}

func (f *supplierFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.name, "name", "", "name of the supplier")
	flags.StringVar(&f.webhookURL, "webhook-url", "",
		"address of the supplier's own receiver; with {id} in it, called as it is written")
	flags.DurationVar(&f.accessTTL, "access-ttl", supplierauth.DefaultAccessTTL, "lifetime of access tokens")
	flags.DurationVar(&f.refreshTTL, "refresh-ttl", supplierauth.DefaultRefreshTTL, "lifetime of refresh tokens")
	flags.StringVar(&f.scopes, "scopes", strings.Join(supplierauth.DefaultScopes(), ","),
		"what its tokens may do, separated by commas")
	flags.IntVar(&f.receiverConcurrency, "receiver-concurrency", 0,
		"calls that its receiver takes at once, 1 to 10000"+defaultConcurrency)
}

func splitList(text string) []string {
	list := []string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

func supplierCreate() *cobra.Command {
	var f supplierFlags
	cmd := &cobra.Command{Use: "create", Short: "create a supplier; its key and secret are shown once", Args: cobra.NoArgs,
		Example: `  api supplier create --name Acme
  api supplier create --name Acme --webhook-url https://hooks.acme.example \
    --scopes material-requests,products,webhooks`}
	cmd.RunE = operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		created, err := a.Suppliers.CreateSupplier(ctx, supplierauth.Supplier{
			Name: f.name, WebhookURL: f.webhookURL, AccessTTL: f.accessTTL, RefreshTTL: f.refreshTTL,
			Scopes:              splitList(f.scopes),
			ReceiverConcurrency: f.patch(cmd.Flags()).ReceiverConcurrency,
		})
		if err != nil {
			return nil, err
		}
		return credentials{ID: created.Supplier.ID, Name: created.Supplier.Name, APIKey: created.APIKey,
			WebhookSecret: created.WebhookSecret}, nil
	})
	f.add(cmd.Flags())
	return required(cmd, "name")
}

// credentials is what is shown once.
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

func supplierUpdate() *cobra.Command {
	var f supplierFlags
	cmd := &cobra.Command{Use: "update ID", Short: "change the given values of a supplier",
		Args: cobra.ExactArgs(1), Example: `  api supplier update Acme --webhook-url https://hooks.acme.example
  api supplier update Acme --scopes material-requests,products,webhooks,orders:read`}
	update := onNamed(supplierOf, func(ctx context.Context, a *app.App, id string) (any, error) {
		return a.Suppliers.UpdateSupplier(ctx, id, f.patch(cmd.Flags()))
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().NFlag() == 0 {
			return errors.New("nothing to change: give at least one of the flags")
		}
		return update(cmd, args)
	}
	f.add(cmd.Flags())
	none := map[string]string{"duration": "0s", "int": "0"} // what pflag does not print
	// A flag that is not given changes nothing: a default would promise a change.
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		flag.DefValue, flag.Usage = none[flag.Value.Type()], strings.TrimSuffix(flag.Usage, defaultConcurrency)
	})
	return cmd
}

// patch holds only the flags that were given.
func (f *supplierFlags) patch(flags *pflag.FlagSet) supplierauth.SupplierPatch {
	return supplierauth.SupplierPatch{
		Name: given(flags, "name", f.name), WebhookURL: given(flags, "webhook-url", f.webhookURL),
		AccessTTL: given(flags, "access-ttl", f.accessTTL), RefreshTTL: given(flags, "refresh-ttl", f.refreshTTL),
		Scopes:              given(flags, "scopes", splitList(f.scopes)),
		ReceiverConcurrency: given(flags, "receiver-concurrency", f.receiverConcurrency),
	}
}

func given[T any](flags *pflag.FlagSet, name string, value T) *T {
	if !flags.Changed(name) {
		return nil
	}
	return &value
}

func supplierRotateKey() *cobra.Command {
	return rotation("rotate-key", "make a new API key; the old one works for the overlap",
		func(ctx context.Context, s *supplierauth.Service, id string, overlap time.Duration) (credentials, error) {
			key, err := s.RotateAPIKey(ctx, id, overlap)
			return credentials{ID: id, APIKey: key}, err
		})
}

func supplierRotateSecret() *cobra.Command {
	return rotation("rotate-webhook-secret", "make a new webhook secret; both sign for the overlap",
		func(ctx context.Context, s *supplierauth.Service, id string, overlap time.Duration) (credentials, error) {
			secret, err := s.RotateWebhookSecret(ctx, id, overlap)
			return credentials{ID: id, WebhookSecret: secret}, err
		})
}

func rotation(use, short string, rotate func(context.Context, *supplierauth.Service, string,
	time.Duration) (credentials, error)) *cobra.Command {
	cmd := &cobra.Command{Use: use + " ID", Short: short, Args: cobra.ExactArgs(1),
		Example: "  api supplier " + use + " Acme --overlap 48h"}
	overlap := cmd.Flags().Duration("overlap", defaultOverlap, "how long the old one keeps working")
	cmd.RunE = onNamed(supplierOf, func(ctx context.Context, a *app.App, id string) (any, error) {
		return rotate(ctx, a.Suppliers, id, *overlap)
	})
	return cmd
}

func supplierSwitch(use, short, status string, do func(ctx context.Context, a *app.App, id string) error,
) *cobra.Command {
	return &cobra.Command{Use: use + " ID", Short: short, Args: cobra.ExactArgs(1),
		Example: "  api supplier " + use + " Acme",
		RunE: onNamed(supplierOf, func(ctx context.Context, a *app.App, id string) (any, error) {
			if err := do(ctx, a, id); err != nil {
				return nil, err
			}
			return map[string]string{"id": id, "status": status}, nil
		})}
}

func supplierRevokeSessions() *cobra.Command {
	return &cobra.Command{Use: "revoke-sessions ID", Short: "end all sessions of a supplier, portal included",
		Args: cobra.ExactArgs(1), Example: "  api supplier revoke-sessions Acme",
		RunE: onNamed(supplierOf, func(ctx context.Context, a *app.App, id string) (any, error) {
			ended, err := a.Suppliers.RevokeSessions(ctx, id)
			return map[string]any{"id": id, "sessions_ended": ended}, err
		})}
}

func supplierPortalLink() *cobra.Command {
	return &cobra.Command{Use: "portal-link ID", Short: "print a portal link that works once, for 5 minutes",
		Args: cobra.ExactArgs(1), Example: "  api supplier portal-link Acme",
		RunE: onNamed(supplierOf, func(ctx context.Context, a *app.App, id string) (any, error) {
			return a.PortalLink(ctx, id)
		})}
}
