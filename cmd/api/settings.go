package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
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
