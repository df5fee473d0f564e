package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sample"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const demoName = "demo"

// demo is the demo supplier: its credentials, and the address that it calls.
type demo struct{ supplier, key, secret, url string }

// demonstrate prepares the configuration of `serve --demo`. Its result prints the tour; call it when the service is
// ready.
func demonstrate(cmd *cobra.Command, cfg *config.Config) (
	func(ctx context.Context, a *app.App, address string) error, error) {
	file, scores := "", false
	if cfg.DatabaseURL == "" {
		file = filepath.Join(cfg.DataDir, app.DemoFile)
		cfg.AllowPrivate = true
		if scores = cfg.PrimaryToken == "" && len(cfg.ScoreboardKeys()) == 0; scores {
			if err := sampleScores(cmd.Context(), cfg); err != nil {
				return nil, err
			}
		}
	}
	return func(ctx context.Context, a *app.App, address string) error {
		d, err := demoSupplier(ctx, a.Suppliers, file, address)
		if err != nil {
			return fmt.Errorf("make demo supplier: %w", err)
		}
		return printTour(ctx, cmd.OutOrStdout(), cfg, a, d, scores)
	}, nil
}

// sampleScores starts both sample providers in this process, and configures the scoreboard with them and a key.
func sampleScores(ctx context.Context, cfg *config.Config) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for sample matches: %w", err)
	}
	go func() { _ = serveOn(ctx, listener, sample.Handler(time.Now)) }() // without it the scoreboard answers 500
	base := "http://" + listener.Addr().String()
	cfg.PulseKeys, cfg.PrimaryToken, cfg.PrimaryURL = demoName, "sample", base+"/sportmonks"
	if cfg.FallbackKey == "" {
		cfg.FallbackKey, cfg.FallbackURL = "sample", base+"/balldontlie"
	}
	return nil
}

// demoSupplier returns the supplier that the file names, with a new secret if the one there does not sign. If its key
// is refused, the supplier named demo gets new credentials, or is made. Without a file the credentials are new each
// time, and the old ones work for another day.
func demoSupplier(ctx context.Context, suppliers *supplierauth.Service, file, address string) (d demo, err error) {
	d = readDemo(file)
	if _, err = suppliers.Exchange(ctx, d.key, nil); errs.KindOf(err) == errs.Unauthenticated {
		d, err = renewDemo(ctx, suppliers)
	}
	if err == nil {
		d.secret, err = d.signing(ctx, suppliers)
	}
	if d.url = address; file == "" || err != nil {
		return d, err
	}
	text := fmt.Sprintf(demoVariables, d.supplier, d.key, d.secret, d.url)
	return d, os.WriteFile(file, []byte(text), 0o600)
}

// signing returns the supplier's secret if it signs, otherwise a new one.
func (d demo) signing(ctx context.Context, suppliers *supplierauth.Service) (string, error) {
	secret, malformed := webhook.ParseSecret(d.secret)
	receivers, err := suppliers.Receivers(ctx, []string{d.supplier})
	if err != nil || malformed == nil && slices.ContainsFunc(receivers[d.supplier].Secrets, secret.Equal) {
		return d.secret, err
	}
	return suppliers.RotateWebhookSecret(ctx, d.supplier, defaultOverlap)
}

// renewDemo returns the supplier named demo with a new key, and with a secret only when it was made.
func renewDemo(ctx context.Context, suppliers *supplierauth.Service) (demo, error) {
	list, err := suppliers.ListSuppliers(ctx)
	if err != nil {
		return demo{}, err
	}
	at := slices.IndexFunc(list, func(s supplierauth.Supplier) bool { return s.Name == demoName && s.Active })
	if at < 0 {
		created, err := suppliers.CreateSupplier(ctx, supplierauth.Supplier{
			Name: demoName, AccessTTL: supplierauth.DefaultAccessTTL, RefreshTTL: supplierauth.DefaultRefreshTTL,
			Scopes: supplierauth.DefaultScopes(),
		})
		return demo{supplier: created.Supplier.ID, key: created.APIKey, secret: created.WebhookSecret}, err
	}
	d := demo{supplier: list[at].ID}
	d.key, err = suppliers.RotateAPIKey(ctx, d.supplier, defaultOverlap)
	return d, err
}

// demoVariables are the variables that the samples and `api listen` read.
const demoVariables = "export SUPPLIER_ID=%s\nexport SUPPLYHUB_API_KEY=%s\nexport WEBHOOK_SECRET=%s\n" +
	"export SUPPLYHUB_URL=%s\n"

// readDemo reads the file's variables. One that cannot be read stays empty, and does not work.
func readDemo(file string) (d demo) {
	text, _ := os.ReadFile(file)
	_, _ = fmt.Sscanf(string(text), demoVariables, &d.supplier, &d.key, &d.secret, &d.url)
	return d
}
