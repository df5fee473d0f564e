package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/errs"
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
			if err := knownSetting(ctx, a, args[0]); err != nil {
				return nil, err
			}
			return a.Scores.SetSetting(ctx, args[0], args[1])
		})}
	unset := &cobra.Command{Use: "unset KEY", Short: "reset a setting to its default",
		Args: cobra.ExactArgs(1), Example: "  api settings unset scoreboard.daily_quota",
		RunE: operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
			if err := knownSetting(ctx, a, args[0]); err != nil {
				return nil, err
			}
			return a.Scores.UnsetSetting(ctx, args[0])
		})}
	return group("settings", "runtime settings; a change needs no restart and applies everywhere within 5 seconds",
		list, completing(set, false, settingKeys), completing(unset, false, settingKeys))
}

func settingKeys(ctx context.Context, a *app.App) ([]cobra.Completion, error) {
	settings, err := a.Scores.ListSettings(ctx)
	return completions(settings, err, func(i int) (string, string) { return settings[i].Key, settings[i].Meaning })
}

// knownSetting refuses a key that is none, with the ones that it may have been meant to be.
func knownSetting(ctx context.Context, a *app.App, key string) error {
	settings, err := a.Scores.ListSettings(ctx)
	if err != nil {
		return err
	}
	keys := make([]string, len(settings))
	for i, s := range settings {
		keys[i] = s.Key
	}
	if slices.Contains(keys, key) {
		return nil
	}
	return errs.New(errs.NotFound, "There is no setting "+key+didYouMean(key, keys...))
}
