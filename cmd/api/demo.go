package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sample"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	demoName = "demo"
)

// demo is the demo supplier with its credentials.
type demo struct{ supplier, key, secret string }

// demonstrate prepares the configuration of `serve --demo`; what it returns prints the tour once the service is ready.
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
		if err := printTour(cmd.OutOrStdout(), cfg, d, address, scores); err != nil {
			return err
		}
		return printConsole(cmd.OutOrStdout(), a.Console())
	}, nil
}

// sampleScores sets the scoreboard up with both sample providers, inside this process, and a key.
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

// demoSupplier returns the one that the file names as long as it works, else one of that name with new credentials,
// else a new one. Without a file its credentials are new each time, and the former ones work for another day.
func demoSupplier(ctx context.Context, suppliers *supplierauth.Service, file, address string) (demo, error) {
	kept, err := readDemo(file)
	if err != nil {
		return demo{}, err
	}
	if works, err := kept.works(ctx, suppliers, address); works || err != nil {
		return kept, err
	}
	d, err := renewDemo(ctx, suppliers)
	if err != nil || file == "" {
		return d, err
	}
	return d, writeDemo(file, d)
}

// works reports whether the supplier still has this key and this secret.
func (d demo) works(ctx context.Context, suppliers *supplierauth.Service, address string) (bool, error) {
	secret, err := webhook.ParseSecret(d.secret)
	if err != nil || d.supplier == "" {
		return false, nil
	}
	receivers, err := suppliers.Receivers(ctx, []string{d.supplier})
	if err != nil {
		return false, err
	}
	if r := receivers[d.supplier]; !r.Active || !slices.ContainsFunc(r.Secrets, secret.Equal) {
		return false, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/api/external-auth/token", nil)
	if err != nil {
		return false, err
	}
	request.Header.Set("X-Api-Key", d.key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	return response.StatusCode == http.StatusOK, response.Body.Close()
}

func renewDemo(ctx context.Context, suppliers *supplierauth.Service) (demo, error) {
	list, err := suppliers.ListSuppliers(ctx)
	if err != nil {
		return demo{}, err
	}
	at := slices.IndexFunc(list, func(s supplierauth.Supplier) bool { return s.Name == demoName && s.Active })
	if at < 0 {
		created, err := suppliers.CreateSupplier(ctx, supplierauth.NewSupplier{
			Name: demoName, AccessTTL: supplierauth.DefaultAccessTTL, RefreshTTL: supplierauth.DefaultRefreshTTL,
			Scopes: supplierauth.DefaultScopes(),
		})
		return demo{created.Supplier.ID, created.APIKey, created.WebhookSecret}, err
	}
	d := demo{supplier: list[at].ID}
	if d.key, err = suppliers.RotateAPIKey(ctx, d.supplier, defaultOverlap); err != nil {
		return d, err
	}
	d.secret, err = suppliers.RotateWebhookSecret(ctx, d.supplier, defaultOverlap)
	return d, err
}

const demoVariables = "DEMO_SUPPLIER=%s\nDEMO_KEY=%s\nDEMO_SECRET=%s\n"

func readDemo(file string) (d demo, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || file == "" {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	_, _ = fmt.Sscanf(string(text), demoVariables, &d.supplier, &d.key, &d.secret) // what cannot be read does not work
	return d, nil
}

// writeDemo puts the whole file in its place, or leaves it as it was.
func writeDemo(file string, d demo) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".demo-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = fmt.Fprintf(tmp, demoVariables, d.supplier, d.key, d.secret)
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

// printConsole prints where the operator's console is, and the token that an action in it asks for.
func printConsole(w io.Writer, c app.Console) error {
	token := c.Token
	if token == "" {
		token = "none is set: it only shows" //nolint:gosec // words, no credential
	}
	_, err := fmt.Fprintf(w, "\nOperator's console: %s\nOperator token:     %s\n", c.Address, token)
	return err
}
