package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/terminal"
)

func deliveryCommand() *cobra.Command {
	return group("delivery", "look at webhook deliveries, and send them again", deliveryList(), deliveryShow(),
		deliveryRedeliver())
}

func deliveryList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "list deliveries, newest first", Args: cobra.NoArgs,
		Example: `  api delivery list --status pending --supplier Acme
  api delivery list --status dead --since 24h`}
	status := choiceFlag(cmd, cmd.Flags(), "status", "", "", "only those of this status", deliveries.Pending,
		deliveries.Delivered, deliveries.Dead, deliveries.Failed)
	supplier := cmd.Flags().String("supplier", "", "only those of this supplier, by id or name")
	request := cmd.Flags().Int64("request", 0, "only those of the request with this id, which is the supplier's own")
	since := cmd.Flags().String("since", "", "only those made since this time (RFC 3339) or this long ago (such as 24h)")
	limit := limitFlag(cmd)
	var start func(now time.Time) time.Time
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		start, err = parseSince(*since)
		return err
	}
	cmd.RunE = operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		of, err := supplierOf(ctx, a, *supplier)
		if err != nil {
			return nil, err
		}
		filter := deliveries.Filter{SupplierID: of, Status: status.value, Since: start(a.Now())}
		id := given(cmd.Flags(), "request", *request)
		columns := deliveryColumns(a.Now())
		if filter.Status == deliveries.Pending {
			columns = aged(a.Now(), "id", "request_id:REQUEST", "attempt_count:TRIES", "last_status|last_error:LAST",
				"next_attempt_at:NEXT", "created_at:AGE", "destination:TO")
		}
		return stream(cmd, columns, func(add func(any) error) error {
			return a.EachDelivery(ctx, filter, id, int(*limit), func(d deliveries.Delivery) error { return add(d) })
		})
	})
	return cmd
}

func deliveryColumns(now time.Time) columns {
	return aged(now, "id", "status", "request_id:REQUEST", "created_at:AGE", "destination:TO")
}

func deliveryShow() *cobra.Command {
	return &cobra.Command{Use: "show ID", Short: "show a delivery with its attempts", Args: cobra.ExactArgs(1),
		Example: "  api delivery show msg_0aB1cD2eF3gH4iJ5kL6mN7",
		RunE: operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
			delivery, err := a.Deliveries.Show(ctx, args[0])
			return page{delivery, map[string]columns{"attempts": plain("number:#", "time", "status", "duration_ms:MS",
				"url", "error|response:ANSWER")}}, err
		})}
}

func deliveryRedeliver() *cobra.Command {
	cmd := &cobra.Command{Use: "redeliver [ID…]",
		Short: "send deliveries again, by id or by --status, with all retries; a pending one is tried now",
		Example: `  api delivery redeliver msg_0aB1cD2eF3gH4iJ5kL6mN7
  api delivery redeliver --status undelivered --supplier Acme --since 24h`}
	status := choiceFlag(cmd, cmd.Flags(), "status", "", "", "redeliver all of this status; says how many and asks first",
		deliveries.Recoverable()...)
	since := cmd.Flags().String("since", "",
		"with --status: only those made since this time (RFC 3339) or this long ago (such as 24h)")
	supplier := cmd.Flags().String("supplier", "", "with --status: only those of this supplier, by id or name")
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	var from func(now time.Time) time.Time
	redeliver := operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
		if status.value == "" {
			n, err := a.Deliveries.Redeliver(ctx, args...)
			return redelivered{n}, err
		}
		of, err := supplierOf(ctx, a, *supplier)
		if err != nil {
			return nil, err
		}
		filter := deliveries.Filter{Status: status.value, Since: from(a.Now()), SupplierID: of}
		return redeliverAll(ctx, cmd, a, filter, *yes)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if from, err = parseSince(*since); err != nil {
			return err
		}
		switch {
		case len(args) > 0 && cmd.Flags().NFlag() > 0 && (status.value != "" || *since != "" || *supplier != ""):
			return errors.New("give delivery ids or --status, not both")
		case len(args) == 0 && status.value == "":
			return errors.New("nothing to redeliver: give delivery ids, or --status")
		}
		return redeliver(cmd, args)
	}
	return cmd
}

// redelivered is how many deliveries have a new schedule.
type redelivered struct {
	Redelivered int64 `json:"redelivered"`
}

// redeliverAll prints how many it would be, and asks.
func redeliverAll(ctx context.Context, cmd *cobra.Command, a *app.App, filter deliveries.Filter, yes bool) (
	any, error) {
	n := int64(0)
	counted := filter
	var err error
	for _, counted.Status = range filter.Status.Recovered() {
		err = errors.Join(err, a.Deliveries.Each(ctx, counted, 0, func(deliveries.Delivery) error {
			n++
			return nil
		}))
	}
	if err != nil || n == 0 {
		logctx.Unchanged(ctx)
		return redelivered{}, err
	}
	if !yes && !confirmed(ctx, cmd, fmt.Sprintf("Redeliver %d %s deliveries?", n, filter.Status)) {
		return nil, errs.New(errs.Invalid, "nothing is redelivered: answer y, or give --yes")
	}
	n, err = a.Deliveries.RedeliverAll(ctx, filter)
	if err != nil && n > 0 {
		err = fmt.Errorf("%w (%d are redelivered)", err, n)
	}
	return redelivered{n}, err
}

// confirmed reports whether the operator agrees. It asks on standard error, so that standard output is the result
// alone.
func confirmed(ctx context.Context, cmd *cobra.Command, question string) bool {
	fmt.Fprint(cmd.ErrOrStderr(), question+" [y/N] ")
	in := terminal.Input(ctx, func() (io.ReadCloser, error) { return io.NopCloser(cmd.InOrStdin()), nil })
	defer in.Close()
	var answer string
	_, _ = fmt.Fscanln(in, &answer) // no answer is a no
	return answer == "y" || answer == "Y" || answer == "yes"
}

// parseSince reads a time, or how long ago it was. Its result returns the time, given that by which the service's
// records are kept; zero is none.
func parseSince(text string) (func(now time.Time) time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return func(now time.Time) time.Time { return now.Add(-ago) }, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil && text != "" {
		return nil, errors.New("--since must be a time such as 2026-11-20T12:00:00Z or a duration such as 24h")
	}
	return func(time.Time) time.Time { return at }, nil
}
