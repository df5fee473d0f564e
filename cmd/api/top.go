package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/figures"
	"github.com/supplyhub/supplyhub/internal/terminal"
)

const (
	topEvery = 2 * time.Second
	toTop    = "\x1b[H\x1b[2J"
	ctrlC    = 3 // as a terminal in raw mode sends it
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
	cmd := &cobra.Command{Use: "top", Short: "show the console's overview in the terminal; q ends it", Args: cobra.NoArgs,
		Long: `Shows the console's overview: what all processes did in the last minute and what they counted. Without a
terminal it is printed once.`,
		Example: "  api top\n  api top -o json"}
	cmd.RunE = operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		screen, ok := cmd.OutOrStdout().(*terminal.Writer)
		if !asJSON(cmd) && ok && screen.Width() > 0 && term.IsTerminal(int(os.Stdin.Fd())) {
			return (*list)(nil), watchTop(ctx, screen, a)
		}
		now, err := a.Overview(ctx)
		return overview{now}, err
	})
	return cmd
}

// watchTop draws the figures again and again until q is pressed.
func watchTop(ctx context.Context, w *terminal.Writer, a *app.App) error {
	before, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	defer func() { _ = term.Restore(int(os.Stdin.Fd()), before) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for key := make([]byte, 1); ; {
			if _, err := os.Stdin.Read(key); err != nil || key[0] == 'q' || key[0] == ctrlC {
				cancel()
				return
			}
		}
	}()
	defer func() { _ = w.Control("\r\n") }() // it ends anyway
	for ctx.Err() == nil {
		if err := drawTop(ctx, w, a); err != nil {
			return err
		}
		select {
		case <-time.After(topEvery):
		case <-ctx.Done():
		}
	}
	return nil
}

// drawTop draws one picture; a database that does not answer is said in it.
func drawTop(ctx context.Context, w *terminal.Writer, a *app.App) error {
	var text strings.Builder
	now, err := a.Overview(ctx)
	if err != nil {
		fmt.Fprintln(&text, explain(err))
	} else if err := (overview{now}).writeText(&text); err != nil {
		return err
	}
	fmt.Fprintf(&text, "\n%s   q ends", time.Now().Format(time.TimeOnly))
	// raw mode adds no carriage return
	return w.Control(toTop + strings.ReplaceAll(terminal.Clean(text.String()), "\n", "\r\n"))
}
