package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/figures"
)

// overview reads as the console's figures.
type overview struct{ figures.Overview }

// WriteText writes one line for each figure.
func (o overview) WriteText(w io.Writer) (err error) {
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
	return &cobra.Command{Use: "top", Args: cobra.NoArgs, Short: "print the console's overview",
		Long: `Prints the console's overview: what all processes did in the last minute and what they counted. To see it
change, run it again and again, as watch does.`,
		Example: "  api top -o json\n  watch api top",
		RunE: operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
			now, err := a.Overview(ctx)
			return overview{now}, err
		})}
}
