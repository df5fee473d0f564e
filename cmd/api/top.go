package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/terminal"
)

const (
	topEvery = 2 * time.Second
	topOnce  = time.Second // between the two looks of a single print
	toTop    = "\x1b[H\x1b[2J"
	ctrlC    = 3 // as a terminal in raw mode sends it
)

// overview reads as the console's figures.
type overview struct {
	app.Figures
	from []string
}

func (o overview) writeText(w io.Writer) error {
	for _, line := range []struct {
		name, unit string
		value      *float64
	}{
		{"Accepted per second", "", o.Accepted}, {"Delivered per second", "", o.Delivered}, {"Backlog", "", o.Backlog},
		{"Oldest waiting", " s", o.Oldest}, {"Waiting deliveries", "", o.Waiting}, {"Dead deliveries", "", o.Dead},
		{"Failing receivers", "", o.Failing}, {"Paused receivers", "", o.Paused},
	} {
		shown := nothing
		if line.value != nil {
			shown = fmt.Sprintf("%.1f", *line.value)
			shown = strings.TrimSuffix(shown, ".0") + line.unit
		}
		if _, err := fmt.Fprintf(w, "%-22s%10s\n", line.name, shown); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\nread from %s\n", strings.Join(o.from, ", "))
	return err
}

func topCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "top", Short: "show the console's overview in the terminal; q ends it", Args: cobra.NoArgs,
		Long: `Shows the console's overview, from the metrics of the api of this configuration. Where the worker is
a process of its own, name the operator listeners of all processes. Without a terminal the figures of one second are
printed.`,
		Example: "  api top\n  api top --admin 10.0.0.1:9090,10.0.0.2:9090,10.0.0.3:9091"}
	addresses := cmd.Flags().StringSlice("admin", nil,
		"operator listeners to read, separated by commas (default ADMIN_ADDR)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkOutput(cmd); err != nil {
			return err
		}
		cfg, _, err := app.Configure(app.Environment(), config.ForCommand, cmd.ErrOrStderr())
		if err != nil {
			return configFault{err}
		}
		meter := app.NewMeter(cfg, *addresses...)
		screen, ok := cmd.OutOrStdout().(*terminal.Writer)
		if o, _ := cmd.Flags().GetString("output"); o == "text" && ok && screen.Width() > 0 &&
			term.IsTerminal(int(os.Stdin.Fd())) {
			err = watchTop(cmd.Context(), screen, meter)
		} else {
			err = printTop(cmd, meter)
		}
		if err != nil {
			return failure{err}
		}
		return nil
	}
	return cmd
}

// printTop prints the figures of one second.
func printTop(cmd *cobra.Command, meter *app.Meter) error {
	if _, err := meter.Read(cmd.Context()); err != nil {
		return err
	}
	select {
	case <-time.After(topOnce):
	case <-cmd.Context().Done():
		return cmd.Context().Err()
	}
	figures, err := meter.Read(cmd.Context())
	if err != nil {
		return err
	}
	return print(cmd, overview{figures, meter.Addresses()})
}

// watchTop draws the figures again and again until q is pressed.
func watchTop(ctx context.Context, w *terminal.Writer, meter *app.Meter) error {
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
		if err := drawTop(ctx, w, meter); err != nil {
			return err
		}
		select {
		case <-time.After(topEvery):
		case <-ctx.Done():
		}
	}
	return nil
}

// drawTop draws one picture; an unavailable process is said in it.
func drawTop(ctx context.Context, w *terminal.Writer, meter *app.Meter) error {
	var text strings.Builder
	figures, err := meter.Read(ctx)
	if err != nil {
		fmt.Fprintln(&text, err)
	} else if err := (overview{figures, meter.Addresses()}).writeText(&text); err != nil {
		return err
	}
	fmt.Fprintf(&text, "\n%s   q ends", time.Now().Format(time.TimeOnly))
	// raw mode adds no carriage return
	return w.Control(toTop + strings.ReplaceAll(terminal.Clean(text.String()), "\n", "\r\n"))
}
