package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
)

func receiverCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "list the suppliers' receivers, those that need attention first",
		Args: cobra.NoArgs,
		Long: `Lists the suppliers' receivers: those that fail, then those that are paused, then the others. OLDEST is how
long the delivery that waits longest has waited.`,
		Example: "  api receiver list\n  api receiver list -o json | jq '.[] | select(.state != \"active\")'",
		RunE: operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
			list, err := a.ReceiverStatuses(ctx)
			return table{list, aged(a.Now(), "supplier_id:ID", "state", "consecutive_failures:FAILURES", "waiting",
				"oldest_waiting_at:OLDEST", "supplier_name:SUPPLIER", "last_error")}, err
		})}
	return group("receiver", "look at the suppliers' receivers", list)
}
