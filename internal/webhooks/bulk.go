package webhooks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// CountLost counts the Dead or Failed deliveries that the filter's status and supplier choose, up to most.
func (d *Dispatcher) CountLost(ctx context.Context, filter Filter, most int) (int64, error) {
	if err := filter.lost(); err != nil {
		return 0, err
	}
	return d.store.countLost(ctx, filter, most)
}

// RedeliverLost starts a whole new schedule for the next of those deliveries, at most limit of them; what is dead or
// failed since a moment after until is left as it is. It returns how many it redelivered and whether there may be more.
func (d *Dispatcher) RedeliverLost(ctx context.Context, filter Filter, until time.Time, limit int) (
	n int64, more bool, err error) {
	if err := filter.lost(); err != nil {
		return 0, false, err
	}
	ids, err := d.store.lostUntil(ctx, filter, until, limit)
	if err != nil || len(ids) == 0 {
		return 0, false, err
	}
	err = d.deps.DB.InTx(ctx, "redeliver what was lost", func(ctx context.Context) error {
		found, err := d.store.lockByID(ctx, ids)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(one Delivery) bool { // another caller was faster
			return one.Status != filter.Status || one.UpdatedAt.After(until)
		})
		n = int64(len(found))
		return d.reopen(ctx, found)
	})
	if err != nil {
		return 0, false, fmt.Errorf("redeliver: %w", err)
	}
	return n, len(ids) == limit, nil
}

// lost refuses a filter that chooses others than dead or failed deliveries.
func (f Filter) lost() error {
	if f.Status != Dead && f.Status != Failed {
		return errs.New(errs.Invalid, "Only dead or failed deliveries can be redelivered all at once: "+
			"choose one of these states.")
	}
	return nil
}
