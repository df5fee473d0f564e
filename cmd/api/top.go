package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/figures"
	"github.com/supplyhub/supplyhub/internal/sleep"
	"github.com/supplyhub/supplyhub/internal/terminal"
)

const (
	topEvery = 2 * time.Second
	toTop    = "\x1b[H\x1b[2J"
)

// overview reads as the console's figures.
type overview struct{ figures.Overview }

func (o overview) writeText(w io.Writer) (err error) {
	for _, line := range []struct {
		name, unit string
		value      *float64
	}{
		{"Accepted per second", "", &o.Accepted}, {"Delivered per second", "", &o.Delivered}, {"Backlog", "", o.Backlog},
		{"Oldest waiting", " s", o.Oldest}, {"Waiting deliveries", "", o.Waiting}, {"Dead deliveries", "", o.Dead},
		{"Failing receivers", "", o.Failing}, {"Paused receivers", "", o.Paused},
	} {
		shown := nothing
		if line.value != nil {
			shown = strings.TrimSuffix(fmt.Sprintf("%.1f", *line.value), ".0") + line.unit
		}
		_, failed := fmt.Fprintf(w, "%-22s%10s\n", line.name, shown)
		err = cmp.Or(err, failed)
	}
	return err
}

func topCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "top", Args: cobra.NoArgs,
		Short: "show the console's overview in the terminal, until Ctrl-C",
		Long: `Shows the console's overview: what all processes did in the last minute and what they counted. Without a
terminal it is printed once.`,
		Example: "  api top\n  api top -o json"}
	cmd.RunE = operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		screen, ok := cmd.OutOrStdout().(*terminal.Writer)
		if !ok || !screen.IsTerminal() || asJSON(cmd) {
			now, err := a.Overview(ctx)
			return overview{now}, err
		}
		for ctx.Err() == nil {
			if err := draw(ctx, screen, a); err != nil {
				return nil, err
			}
			sleep.For(ctx, topEvery)
		}
		return (*list)(nil), nil
	})
	return cmd
}

// draw draws one picture; a database that does not answer is said in it.
func draw(ctx context.Context, screen *terminal.Writer, a *app.App) error {
	var text strings.Builder
	now, err := a.Overview(ctx)
	if err != nil {
		fmt.Fprintln(&text, explain(err))
	} else if err := (overview{now}).writeText(&text); err != nil {
		return err
	}
	return screen.Control(toTop + terminal.Clean(text.String()))
}
