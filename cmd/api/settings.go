package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/estimates"
)

func settingsCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "list the runtime settings", Args: cobra.NoArgs,
		RunE: operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
			list, err := a.Scores.ListSettings(ctx)
			return table{list, plain("key", "value", "is_set:SET", "meaning")}, err
		})}
	set := &cobra.Command{Use: "set KEY VALUE", Short: "change a setting; lists are separated by commas",
		Args: cobra.ExactArgs(2), Example: `  api settings set scoreboard.daily_quota 120
  api settings set scoreboard.match_ids 18535049,18535050`,
		RunE: operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
			return a.Scores.SetSetting(ctx, args[0], args[1])
		})}
	unset := &cobra.Command{Use: "unset KEY", Short: "reset a setting to its default",
		Args: cobra.ExactArgs(1), Example: "  api settings unset scoreboard.daily_quota",
		RunE: operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
			return a.Scores.UnsetSetting(ctx, args[0])
		})}
	return group("settings", "runtime settings; a change needs no restart and applies everywhere within 5 seconds",
		list, set, unset)
}

func rateCommand() *cobra.Command {
	return group("rate", "manage the rate card; a change needs no restart and leaves sent estimates as they are",
		rateList(), rateSet(), rateRemove())
}

func rateList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "list all services, and from which day each applies", Args: cobra.NoArgs,
		RunE: operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
			list, err := a.Rates.List(ctx)
			return table{list, plain("service", "effective_from:FROM", "base_cents:BASE", "per_kg_cents:PER KG",
				"minimum_cents:MIN", "cubage_kg_m3:CUBAGE", "max_weight_kg:MAX KG", "transit_days:DAYS", "carrier")}, err
		})}
}

func rateSet() *cobra.Command {
	var s estimates.Service
	cmd := &cobra.Command{Use: "set SERVICE", Short: "add a service, or change the given values of one",
		Args: cobra.ExactArgs(1), Example: `  api rate set road --base-cents 2700
  api rate set night --carrier "Noite Cargas" --base-cents 9000 --per-kg-cents 700 --minimum-cents 12000 \
    --cubage 167 --max-side 120 --max-weight 30 --transit-days 1 --from 2027-01-01`}
	f := cmd.Flags()
	rateFlags(f, &s)
	cmd.PreRunE = somethingGiven
	cmd.RunE = operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
		return a.Rates.Change(ctx, args[0], cmp.Or(s.EffectiveFrom, a.Rates.Today()), func(s *estimates.Service) {
			fill := pflag.NewFlagSet("", pflag.ContinueOnError)
			rateFlags(fill, s)
			f.Visit(func(given *pflag.Flag) {
				if fill.Lookup(given.Name) != nil { // it is not one of all commands
					_ = fill.Set(given.Name, given.Value.String()) // it was read once
				}
			})
		})
	})
	return cmd
}

// somethingGiven refuses a call without any flag.
func somethingGiven(cmd *cobra.Command, _ []string) error {
	if cmd.Flags().NFlag() == 0 {
		return errors.New("nothing to change: give at least one of the flags")
	}
	return nil
}

// rateFlags adds a flag for each value of the service, whose default is what the service has.
func rateFlags(f *pflag.FlagSet, s *estimates.Service) {
	f.StringVar(&s.Carrier, "carrier", s.Carrier, "name of the carrier")
	f.Int64Var(&s.BaseCents, "base-cents", s.BaseCents, "price before the weight")
	f.Int64Var(&s.PerKgCents, "per-kg-cents", s.PerKgCents, "price of a chargeable kilogram")
	f.Int64Var(&s.MinimumCents, "minimum-cents", s.MinimumCents, "lowest price")
	f.Float64Var(&s.CubageKgM3, "cubage", s.CubageKgM3, "kilograms that a cubic metre is charged as")
	f.Float64Var(&s.MaxSideCm, "max-side", s.MaxSideCm, "largest side of a piece, in centimetres")
	f.Float64Var(&s.MaxWeightKg, "max-weight", s.MaxWeightKg, "largest chargeable weight, in kilograms")
	f.IntVar(&s.TransitDays, "transit-days", s.TransitDays, "business days from dispatch to delivery")
	f.StringVar(&s.EffectiveFrom, "from", s.EffectiveFrom,
		"day from which it counts, YYYY-MM-DD in São Paulo (default today)")
}

func rateRemove() *cobra.Command {
	return &cobra.Command{Use: "remove SERVICE", Short: "remove a service from the card, for all days",
		Args: cobra.ExactArgs(1), Example: "  api rate remove night",
		RunE: operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
			return map[string]string{"removed": args[0]}, a.Rates.Remove(ctx, args[0])
		})}
}
