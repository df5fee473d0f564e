package main

import (
	"cmp"
	"context"
	_ "embed" // the tour
	"fmt"
	"io"
	"os"
	"text/template"
	"time"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
)

// tour is the walk from a key to a delivered and verified webhook. People paste it whole into bash and zsh, and a test
// does: no comment, and in the lines between the commands no quote or other character that a shell acts on.
//
//go:embed tour.txt
var tour string

// printTour prints the tour with what it names.
func printTour(ctx context.Context, w io.Writer, cfg *config.Config, a *app.App, d demo, scores bool) error {
	program := cmp.Or(os.Args[0], "api")
	if cfg.DatabaseURL == "" && cfg.DataDir != "./data" {
		program = "DATA_DIR='" + cfg.DataDir + "' " + program
	}
	link, err := a.PortalLink(ctx, d.supplier)
	if err != nil {
		return fmt.Errorf("make portal link: %w", err)
	}
	text, err := template.New("tour").Option("missingkey=error").Parse(tour)
	if err != nil {
		return fmt.Errorf("read the tour: %w", err)
	}
	console := a.Console()
	first := time.Now().Unix() // another one at each start
	return text.Execute(w, map[string]any{
		"Program": program, "URL": d.url, "Key": d.key, "Secret": d.secret, "Supplier": d.supplier,
		"Receiver": "127.0.0.1:7001", "Portal": link.URL, "Console": console.Address,
		"Operator": cmp.Or(console.Token, "none is set: the console only shows"),
		"First":    first, "Second": first + 1, "Scores": scores, "Embedded": cfg.DatabaseURL == "",
	})
}
