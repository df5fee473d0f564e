package deliveries

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/round"
)

// The acts of operators on deliveries. Redelivery is arrow h. A redelivery locks the deliveries, then their requests,
// then the receivers (MarkDue), in the order of lockByID; it sends nothing. It leaves a row that is due, which the
// owner's next look finds, a second later at most. A crash before the COMMIT changes nothing; a command that dies
// between two of its transactions has redelivered a part, and repeating it does no harm: a delivery that is pending
// then is only due now.

// Show returns a delivery with its attempts, oldest first; errs.NotFound when there is none of that id.
func (d *Keeper) Show(ctx context.Context, id string) (*Detail, error) {
	return d.show(ctx, id, math.MaxInt32)
}

// ShowNewest is Show with as many of the newest attempts as a page shows.
func (d *Keeper) ShowNewest(ctx context.Context, id string) (*Detail, error) {
	return d.show(ctx, id, pageAttempts)
}

func (d *Keeper) show(ctx context.Context, id string, newest int64) (*Detail, error) {
	found, err := d.store.whole(ctx, id)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, unknownDeliveries([]string{id})
	}
	rows, err := d.store.attemptsOf(ctx, *found, max(found.AttemptCount-newest, 0), newest)
	if err != nil {
		return nil, err
	}
	return &Detail{Delivery: found.delivery(), Attempts: lists.Of(rows, func(r attemptRow) Attempt {
		return r.attempt(found.attempts(r))
	})}, nil
}

// Redeliver sends deliveries again, all or none, and returns how many they are: each is tried at once, and one that is
// not pending gets a whole new schedule. A request that was failed because of one gets its new chance with it. A
// delivery that a worker sends right now is left to it. errs.NotFound: some id is unknown.
func (d *Keeper) Redeliver(ctx context.Context, ids ...string) (int64, error) {
	var n int64
	err := d.deps.DB.InTx(ctx, "redeliver", func(ctx context.Context) error {
		found, err := d.store.lockByID(ctx, ids)
		if err != nil {
			return err
		}
		known, err := d.store.known(ctx, ids)
		if err != nil {
			return err
		}
		missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return known[id] })
		if len(missing) > 0 {
			return unknownDeliveries(missing)
		}
		n = int64(len(known))
		return d.reopen(ctx, found)
	})
	if err != nil {
		return 0, fmt.Errorf("redeliver: %w", err)
	}
	logctx.Note(ctx, slog.Int64("count", n))
	return n, nil
}

// redeliverBatch is how many deliveries one transaction of RedeliverAll takes at most.
const redeliverBatch = 500

// RedeliverAll is Redeliver for all deliveries that the filter chooses, the oldest first. The filter names a status; of
// `undelivered` it takes each in turn.
func (d *Keeper) RedeliverAll(ctx context.Context, filter Filter) (int64, error) {
	total, err := d.recover(ctx, filter, filter.Status.Recovered())
	logctx.Note(ctx, slog.Int64("count", total))
	return total, err
}

// recover redelivers what has one of the statuses. It leaves out deliveries that reach one while it runs: otherwise it
// would never end while others do, and would begin a second time what has failed meanwhile. Workers date a change by
// clocks that may be ahead of this one, so a change in its first second counts as one before it.
func (d *Keeper) recover(ctx context.Context, filter Filter, statuses []Status) (total int64, err error) {
	filter.unchanged = d.deps.Now().Add(clockApart)
	for _, filter.Status = range statuses {
		var n int64
		n, err = d.redeliver(ctx, filter)
		if total += n; err != nil {
			break
		}
	}
	return total, err
}

// redeliver goes through the pages of the filter, one transaction each. Between two it yields to other writers on
// SQLite. However many recoveries a process makes, one page of all of them is written at a time.
func (d *Keeper) redeliver(ctx context.Context, filter Filter) (total int64, err error) {
	var writing time.Time
	for behind, more := (Key{}), true; more && err == nil; {
		var n int64
		n, behind, writing, err = d.redeliverInTurn(ctx, filter, behind, writing)
		total, more = total+n, !behind.IsZero()
	}
	return total, err
}

// redeliverInTurn redelivers a page when its turn has come.
func (d *Keeper) redeliverInTurn(ctx context.Context, filter Filter, behind Key, writing time.Time) (n int64, next Key,
	since time.Time, err error) {
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, Key{}, writing, ctx.Err()
	}
	defer func() { <-d.turn }()
	n, next, err = d.redeliverPage(ctx, filter, behind)
	if err == nil && n > 0 {
		writing = d.deps.DB.Yield(ctx, writing)
	}
	return n, next, writing, err
}

// redeliverPage sends deliveries of a page again that are as they were listed. It returns their number and the key of
// the next page. It reads the page without a lock, then locks the rows and looks once more. So it leaves out those that
// a worker has by then, or that another process redelivered.
func (d *Keeper) redeliverPage(ctx context.Context, filter Filter, behind Key) (n int64, next Key, err error) {
	filter.oldest = true
	page, next, err := d.store.page(ctx, filter, behind, redeliverBatch)
	if err != nil || len(page) == 0 {
		return 0, next, err
	}
	ids := lists.Of(page, func(row deliveryRow) string { return row.ID })
	err = d.deps.DB.InTx(ctx, "redeliver chosen deliveries", func(ctx context.Context) error {
		found, err := d.store.lockByID(ctx, ids)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(f Delivery) bool {
			return f.Status != filter.Status || f.UpdatedAt.After(filter.unchanged) ||
				filter.rested && f.rest(d.deps.Now()) > 0
		})
		n = int64(len(found))
		return d.reopen(ctx, found)
	})
	if err != nil {
		return 0, Key{}, fmt.Errorf("redeliver: %w", err)
	}
	return n, next, nil
}

// reopen sends locked deliveries again, with their requests. If a request failed because of one, it is enqueued again
// in the same transaction, so that it accepts the estimates. The ledger locks the requests; receivers come after them.
func (d *Keeper) reopen(ctx context.Context, found []Delivery) error {
	var own []round.Round
	for _, delivery := range found {
		if delivery.Destination == OwnEndpoint && delivery.Status != Pending {
			own = append(own, delivery.roundOf())
		}
	}
	if len(own) > 0 && d.deps.Ledger != nil {
		if err := d.deps.Ledger.MarkRedelivered(ctx, own...); err != nil {
			return err
		}
	}
	return d.store.again(ctx, found, d.deps.Now())
}

func unknownDeliveries(ids []string) error {
	return errs.New(errs.NotFound, "There is no delivery "+strings.Join(ids, ", ")+".")
}

// Waiting is what is pending for a supplier's receiver: how many deliveries, and since when the first of them; zero:
// nothing waits.
type Waiting struct {
	supplierID string
	N          int64
	Oldest     time.Time
}

// Waiting returns what is pending for each of the suppliers' receivers, counted up to most.
func (d *Keeper) Waiting(ctx context.Context, suppliers []string, most int) (map[string]Waiting, error) {
	rows, err := d.store.waiting(ctx, suppliers, most)
	return lists.By(rows, func(w Waiting) string { return w.supplierID }),
		errs.Doing("count what waits for receivers", err)
}
