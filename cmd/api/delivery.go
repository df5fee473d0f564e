package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/webhooks"
)

func deliveryCommand() *cobra.Command {
	return group("delivery", "look into webhook deliveries and send them again", deliveryList(), deliveryShow(), deliveryRedeliver())
}

func deliveryList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "list deliveries, newest first", Args: cobra.NoArgs}
	status := choiceFlag(cmd, cmd.Flags(), "status", "", "", "only those of this status", deliveryStatuses()...)
	supplier := cmd.Flags().String("supplier", "", "supplier id")
	request := cmd.Flags().String("request", "", "the supplier's id of the material request")
	list := operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		filter := webhooks.Filter{Status: webhooks.Status(status.value), SupplierID: *supplier}
		if *request != "" {
			id, _ := strconv.ParseInt(*request, 10, 64)
			filter.RequestID = &id
		}
		list, err := a.Deliveries.List(ctx, filter)
		return table{list, deliveryColumns()}, err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := strconv.ParseInt(*request, 10, 64); *request != "" && err != nil {
			return errors.New("--request must be a whole number")
		}
		return list(cmd, args)
	}
	return cmd
}

func deliveryColumns() []string {
	return []string{"id", "status", "request_id:REQUEST", "created_at:AGE", "destination:TO"}
}

func deliveryStatuses() []string {
	return []string{string(webhooks.Pending), string(webhooks.Delivered), string(webhooks.Dead), string(webhooks.Failed)}
}

// deliveryIDs are the newest deliveries.
func deliveryIDs(ctx context.Context, a *app.App) ([]cobra.Completion, error) {
	list, err := a.Deliveries.List(ctx, webhooks.Filter{})
	return completions(list, err, func(i int) (string, string) { return list[i].ID, string(list[i].Status) })
}

func deliveryShow() *cobra.Command {
	cmd := &cobra.Command{Use: "show ID", Short: "show a delivery with its attempts", Args: cobra.ExactArgs(1),
		RunE: operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
			delivery, err := a.Deliveries.Show(ctx, args[0])
			return page{delivery, map[string][]string{"attempts": {"number:#", "time", "status", "duration_ms:MS", "error|response:ANSWER"}}}, err
		})}
	return completing(cmd, false, deliveryIDs)
}

func deliveryRedeliver() *cobra.Command {
	cmd := &cobra.Command{Use: "redeliver [ID…]", Short: "give deliveries a whole new schedule, by id or by --status"}
	status := choiceFlag(cmd, cmd.Flags(), "status", "", "", "redeliver all of this status", "dead", "failed", "delivered")
	since := cmd.Flags().String("since", "", "with --status: only those made since this time (RFC 3339) or this long ago (such as 24h)")
	var from time.Time
	redeliver := operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
		n, err := redeliver(ctx, a, args, webhooks.Status(status.value), from)
		return map[string]int64{"redelivered": n}, err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if from, err = parseSince(*since, time.Now()); err != nil {
			return err
		}
		if len(args) == 0 && status.value == "" {
			return errors.New("nothing to redeliver: give delivery ids, or --status")
		}
		if len(args) > 0 && status.value != "" {
			return errors.New("give delivery ids or --status, not both")
		}
		return redeliver(cmd, args)
	}
	return completing(cmd, true, deliveryIDs)
}

func redeliver(ctx context.Context, a *app.App, ids []string, status webhooks.Status, since time.Time) (int64, error) {
	if status != "" {
		return a.Deliveries.RedeliverStatus(ctx, status, since)
	}
	return a.Deliveries.Redeliver(ctx, ids...)
}

func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.Time{}, fmt.Errorf("--since must be a time such as 2026-11-20T12:00:00Z or a duration such as 24h")
}
