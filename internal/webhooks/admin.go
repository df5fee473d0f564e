package webhooks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// List gives the deliveries that the filter chooses, newest first; never nil.
func (d *Dispatcher) List(ctx context.Context, filter Filter) ([]Delivery, error) {
	return d.store.list(ctx, filter)
}

// Show gives a delivery with its attempts; errs.NotFound when there is none of that id.
func (d *Dispatcher) Show(ctx context.Context, id string) (*Detail, error) {
	detail, err := d.store.detail(ctx, id)
	if err != nil {
		return nil, err
	}
	if detail == nil {
		return nil, unknownDeliveries([]string{id})
	}
	for i := range detail.Attempts {
		underWay := detail.worker != nil && i == len(detail.Attempts)-1
		if detail.Attempts[i].DurationMS == nil && !underWay {
			text := interrupted
			detail.Attempts[i].Error = &text
		}
	}
	return detail, nil
}

// Redeliver gives deliveries that are not under way a whole new schedule, all or none, and tells how many there were.
// A request that was failed because of one gets its new chance with it. errs.NotFound: some id is unknown;
// errs.Conflict: some delivery is still being tried.
func (d *Dispatcher) Redeliver(ctx context.Context, ids ...string) (int64, error) {
	var n int64
	err := d.deps.DB.InTx(ctx, func(ctx context.Context) error {
		found, err := d.store.lockByID(ctx, ids)
		if err != nil {
			return err
		}
		if missing := unknown(ids, found); len(missing) > 0 {
			return unknownDeliveries(missing)
		}
		for _, delivery := range found {
			if delivery.Status == Pending {
				return errs.New(errs.Conflict, fmt.Sprintf("The delivery %s is still being tried.", delivery.ID))
			}
		}
		n = int64(len(found))
		return d.reopen(ctx, found)
	})
	if err != nil {
		return 0, fmt.Errorf("redeliver: %w", err)
	}
	return n, nil
}

// redeliverBatch is how many deliveries one transaction of RedeliverStatus takes.
const redeliverBatch = 500

// RedeliverStatus is Redeliver for all deliveries that the filter chooses, which names a status. What comes to the
// status while it runs is left as it is.
func (d *Dispatcher) RedeliverStatus(ctx context.Context, filter Filter) (total int64, err error) {
	if filter.Status == Pending {
		return 0, errs.New(errs.Conflict, "Pending deliveries are being tried anyway.")
	}
	until := d.deps.Now()
	for {
		n := 0
		err := d.deps.DB.InTx(ctx, func(ctx context.Context) error {
			found, err := d.store.lockChosen(ctx, filter, until, redeliverBatch)
			if err != nil {
				return err
			}
			n = len(found)
			return d.reopen(ctx, found)
		})
		if err != nil {
			return total, fmt.Errorf("redeliver: %w", err)
		}
		if total += int64(n); n < redeliverBatch {
			return total, nil
		}
	}
}

// reopen makes locked deliveries pending again, with their requests.
func (d *Dispatcher) reopen(ctx context.Context, found []Delivery) error {
	now := d.deps.Now()
	ids, due := make([]string, len(found)), map[string]time.Time{}
	for i, delivery := range found {
		ids[i], due[delivery.Destination] = delivery.ID, now
		if delivery.Destination != Own || d.deps.Ledger == nil {
			continue
		}
		if err := d.deps.Ledger.MarkRedelivered(ctx, delivery.roundOf()); err != nil {
			return err
		}
	}
	if err := d.store.reopen(ctx, ids, now); err != nil {
		return err
	}
	return d.store.markDue(ctx, due, now)
}

// Overdue reports whether some delivery has been due for longer than the given time; those to paused receivers are not.
func (d *Dispatcher) Overdue(ctx context.Context, longer time.Duration) (bool, error) {
	before := d.deps.Now().Add(-longer)
	found, err := d.store.due(ctx, allShards(), before)
	return slices.ContainsFunc(found, func(r dueRow) bool { return r.at.Before(before) }), err
}

func allShards() []int {
	all := make([]int, dispatch.Shards)
	for shard := range all {
		all[shard] = shard
	}
	return all
}

func unknown(ids []string, found []Delivery) []string {
	known := make(map[string]bool, len(found))
	for _, delivery := range found {
		known[delivery.ID] = true
	}
	var missing []string
	for _, id := range ids {
		if !known[id] {
			missing = append(missing, id)
		}
	}
	return missing
}

func unknownDeliveries(ids []string) error {
	return errs.New(errs.NotFound, "There is no delivery "+strings.Join(ids, ", ")+".")
}
