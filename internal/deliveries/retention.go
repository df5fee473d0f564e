package deliveries

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Retention of deliveries. First End marks deliveries as dead that have waited too long for a receiver (g). Then
// package materials deletes old requests, in transactions of its own. In each of them Hold locks the deliveries first,
// as the order of locks demands. Forget then deletes them with their events, or a whole partition is dropped. After a
// crash the next run deletes the rest. End never touches deliveries to the own endpoint: the request that waits for one
// is still enqueued, and stays.

// endBatch limits how many deliveries one transaction of End marks.
const endBatch = 500

// End marks every delivery to a supplier's receiver as dead that has been pending since before the given time, and
// records the reason. Without it a receiver that never comes back would keep its deliveries for ever. End leaves out a
// delivery that a worker is sending right now.
func (d *Keeper) End(ctx context.Context, before time.Time, reason string) error {
	suppliers, err := d.store.waitedFor(ctx)
	if err != nil {
		return err
	}
	var writing time.Time
	for _, supplier := range suppliers {
		filter := Filter{Receiver: supplier, Status: Pending, Until: before, oldest: true}
		total := 0
		for behind, more := (Key{}), true; more && ctx.Err() == nil; {
			found, next, err := d.List(ctx, filter, behind, endBatch)
			if err != nil {
				return err
			}
			n, err := d.end(ctx, found, before, reason)
			if total += n; err != nil {
				return err
			}
			if n > 0 {
				writing = d.deps.DB.Yield(ctx, writing)
			}
			behind, more = next, !next.IsZero()
		}
		if total > 0 {
			d.deps.Log.WarnContext(ctx, "webhook deliveries are dead: "+reason, "supplier_id", supplier, "deliveries", total)
		}
	}
	return ctx.Err()
}

// end marks deliveries as dead that have waited since before the given time, and returns their number. They were listed
// without a lock. So it leaves out those that a worker has by now, and those that were redelivered since: their time
// begins again. It notifies the operator in the same transaction.
func (d *Keeper) end(ctx context.Context, found []Delivery, before time.Time, reason string) (n int, err error) {
	if len(found) == 0 {
		return 0, nil
	}
	ids := lists.Of(found, func(delivery Delivery) string { return delivery.ID })
	err = d.deps.DB.InTx(ctx, "end old deliveries", func(ctx context.Context) error {
		locked, err := d.store.lockByID(ctx, ids)
		if err != nil {
			return err
		}
		old, err := d.store.waitedSince(ctx, ids, before)
		if err != nil {
			return err
		}
		var ended []string
		var notices []notice.Notice
		for _, delivery := range locked {
			if delivery.Status == Pending && old[delivery.ID] {
				ended = append(ended, delivery.ID)
				notices = append(notices, DeadNotice(delivery.roundOf(), delivery.ID, reason))
			}
		}
		n = len(ended)
		if err := d.store.end(ctx, ended, reason, d.deps.Now()); err != nil || !d.notices.Open() {
			return err
		}
		return d.notices.Note(ctx, notices...)
	})
	return n, err
}

// Hold locks the deliveries of the requests' rounds up to a number until the transaction in ctx ends, so that nothing
// redelivers them before they are deleted. It returns the requests of which none is pending. It does not lock a
// delivery that a worker holds, and counts it as pending.
func (d *Keeper) Hold(ctx context.Context, requests []round.Round, upTo int64) (over []round.Round, err error) {
	found, err := d.store.ofRequests(ctx, requests, upTo)
	if err != nil {
		return nil, err
	}
	locked, err := d.store.lockByID(ctx, slices.Collect(maps.Keys(found)))
	if err != nil {
		return nil, err
	}
	left := map[int64]int{} // deliveries that a worker has, or that are pending
	for _, uid := range found {
		left[uid]++
	}
	for _, delivery := range locked {
		if delivery.Status != Pending {
			left[delivery.uid]--
		}
	}
	return slices.DeleteFunc(slices.Clone(requests), func(r round.Round) bool { return left[r.UID] != 0 }), nil
}

// Forget deletes the events of the requests' rounds up to a number, with their deliveries and attempts. It returns the
// number of events. It joins the transaction in ctx, where Hold returned the requests.
func (d *Keeper) Forget(ctx context.Context, requests []round.Round, upTo int64) (events int64, err error) {
	events, err = d.store.forget(ctx, requests, upTo)
	return events, errs.Doing("delete webhook events", err)
}
