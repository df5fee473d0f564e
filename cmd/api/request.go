package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/materials"
)

const defaultLimit = 50

func requestCommand() *cobra.Command {
	return group("request", "look at material requests, and enqueue failed ones again", requestList(), requestShow(),
		requestReopen())
}

func requestList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "list requests, newest first", Args: cobra.NoArgs,
		Example: "  api request list --status failed\n  api request list --supplier Acme --limit 0 -o json"}
	supplier := cmd.Flags().String("supplier", "", "only those of this supplier, by id or name")
	status := choiceFlag(cmd, cmd.Flags(), "status", "", "", "only those of this status", materials.Enqueued,
		materials.Estimated, materials.Selected, materials.Failed)
	limit := limitFlag(cmd)
	cmd.RunE = operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		of, err := supplierOf(ctx, a, *supplier)
		if err != nil {
			return nil, err
		}
		filter := materials.Filter{SupplierID: of, Status: status.value}
		columns := aged(a.Now(), "id", "status", "round", "created_at:AGE", "supplier_id:SUPPLIER", "failure")
		return stream(cmd, columns, func(add func(any) error) error {
			return a.Requests.Each(ctx, filter, int(*limit), func(o materials.Overview) error { return add(o) })
		})
	})
	return cmd
}

func requestShow() *cobra.Command {
	return &cobra.Command{Use: "show SUPPLIER ID", Short: "show a request with its newest rounds and deliveries",
		Args: cobra.ExactArgs(2), Example: "  api request show Acme 3004",
		RunE: withRequest(func(ctx context.Context, a *app.App, supplier string, id int64) (any, error) {
			detail, err := a.ShowRequest(ctx, supplier, id)
			return page{detail, map[string]columns{
				"materials":   plain("sku", "quantity:N", "width", "height", "depth", "material"),
				"estimates":   plain("estimate_id:ID", "service", "price_cents:CENTS", "delivery_date:DELIVERED", "carrier"),
				"unavailable": plain("service", "reason"),
				"rounds":      plain("number:ROUND", "status", "created_at", "failure"),
				"deliveries":  deliveryColumns(a.Now()),
			}}, err
		})}
}

func requestReopen() *cobra.Command {
	return &cobra.Command{Use: "reopen SUPPLIER ID", Short: "enqueue a failed request again, in a new round",
		Args: cobra.ExactArgs(2), Example: "  api request reopen Acme 3004",
		RunE: withRequest(func(ctx context.Context, a *app.App, supplier string, id int64) (any, error) {
			return struct {
				Supplier string `json:"supplier_id"`
				ID       int64  `json:"id"`
				Status   string `json:"status"`
			}{supplier, id, string(materials.Enqueued)}, a.Requests.Reopen(ctx, supplier, id)
		})}
}

// withRequest runs fn with the request that the arguments name.
func withRequest(
	fn func(ctx context.Context, a *app.App, supplier string, id int64) (any, error),
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return errors.New("the id of a request is a whole number")
		}
		return operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
			supplier, err := supplierOf(ctx, a, args[0])
			if err != nil {
				return nil, err
			}
			return fn(ctx, a, supplier, id)
		})(cmd, args)
	}
}
