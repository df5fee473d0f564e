package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
)

func settingsCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "list the runtime settings", Args: cobra.NoArgs,
		RunE: operate(func(ctx context.Context, a *app.App, _ []string) (any, error) { return a.Scores.ListSettings(ctx) })}
	set := &cobra.Command{Use: "set KEY VALUE", Short: "change a setting; lists are separated by commas", Args: cobra.ExactArgs(2),
		RunE: operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
			return a.Scores.SetSetting(ctx, args[0], args[1])
		})}
	unset := &cobra.Command{Use: "unset KEY", Short: "give a setting its default again", Args: cobra.ExactArgs(1),
		RunE: operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
			return a.Scores.UnsetSetting(ctx, args[0])
		})}
	return group("settings", "runtime settings; a change needs no restart and counts everywhere within 5 seconds", list, set, unset)
}
