package sending

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// This is step e of the states (package deliveries): the call was made, and its result is written down. Until then the
// delivery is begun in the database and held in this worker's memory, so that reconcile leaves it alone. A worker that
// dies here leaves an attempt that counts as interrupted, and the receiver gets the call once more under the same
// webhook-id.

// record has the result written down, however long the database is unavailable, until the process has to end. It does
// not wait: results are collected for up to 20 ms, and a whole batch is one statement.
func (d *Dispatcher) record(ctx context.Context, r deliveries.Result, pause time.Duration) {
	done := func(_ struct{}, err error) {
		if err == nil {
			d.written(r.ID)
			return
		}
		go d.recordAgain(ctx, r, pause, err)
	}
	if err := d.results.Enqueue(d.writing, r, done); err != nil {
		done(struct{}{}, err)
	}
}

// recordAgain waits and tries once more. A result that was written by a COMMIT without an answer is written once: the
// statement names the worker and the attempt's number, and the row has another worker or a higher number by then.
func (d *Dispatcher) recordAgain(ctx context.Context, r deliveries.Result, pause time.Duration, cause error) {
	if errors.Is(cause, groupcommit.ErrClosed) || d.writing.Err() != nil {
		d.deps.Log.ErrorContext(ctx, "write webhook delivery attempt down failed: it counts as interrupted", "error", cause)
		d.written(r.ID)
		return
	}
	d.deps.Log.WarnContext(ctx, "write webhook delivery attempt down failed, it is tried again", "error", cause)
	sleep.For(d.writing, pause)
	d.record(ctx, r, min(2*pause, recordAgainMax))
}

// flushResults writes a batch of results down. The batch belongs to no single attempt, so nothing of its context is
// used. When it fails every result of it is recorded again: those that were written find their rows changed and write
// nothing.
func (d *Dispatcher) flushResults(_ context.Context, results []deliveries.Result) ([]struct{}, error) {
	ctx, cancel := context.WithTimeout(d.writing, storeTimeout)
	defer cancel()
	now := d.deps.Now()
	for i := range results {
		results[i].Rebase(now)
	}
	if !d.needsTransaction(results) {
		_, err := d.attempts.Finish(ctx, results, now)
		return make([]struct{}, len(results)), err
	}
	err := d.deps.DB.InTx(ctx, "write results", func(ctx context.Context) error {
		if err := d.judgeGone(ctx, results, now); err != nil {
			return err
		}
		written, err := d.attempts.Finish(ctx, results, now)
		if err != nil {
			return err
		}
		return d.follow(ctx, results, written, now)
	})
	return make([]struct{}, len(results)), err
}

// judgeGone makes a 410 of an address that the receiver has no longer a failed attempt like any other. It is looked at
// before the deliveries are locked, as the order of locks has it; PauseReceiver looks once more.
func (d *Dispatcher) judgeGone(ctx context.Context, results []deliveries.Result, now time.Time) error {
	var gone []string
	for _, r := range results {
		if r.Gone() {
			gone = append(gone, r.Destination)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	addresses, err := d.Addresses(ctx, gone)
	if err != nil {
		return err
	}
	for i, r := range results {
		if has := addresses[r.Destination]; r.Gone() && has != 0 && has != r.Address {
			results[i].Outcome = d.schedule.Again(r.Series, "", now, rand.Float64())
			d.agenda.expect(results[i].Outcome.Next)
		}
	}
	return nil
}

// follow stores what the ends of attempts mean beyond their deliveries: requests that are lost, receivers that are due
// again or want nothing more. It joins the transaction of e and does so only for results that were written there, so
// each is followed once. Requests are locked in their order, then receivers: pauses, notices, MarkDue last.
func (d *Dispatcher) follow(ctx context.Context, results []deliveries.Result, written map[string]bool,
	now time.Time) error {
	due := map[string]time.Time{}
	var gone []deliveries.Result
	// As lockByID says: requests, then receivers. Two workers that write results of the same requests then wait for each
	// other instead of deadlocking.
	ordered := slices.SortedFunc(slices.Values(results),
		func(a, b deliveries.Result) int { return a.Round.Compare(b.Round) })
	for _, r := range ordered {
		switch {
		case !written[r.ID]:
		case r.Gone():
			gone = append(gone, r)
		case r.Lost():
			if err := d.lost(ctx, r.Begun, r.Outcome.Status, r.Reason()); err != nil {
				return err
			}
		case r.Outcome.Status == deliveries.Pending:
			if at, known := due[r.Destination]; !known || r.Outcome.Next.Before(at) {
				due[r.Destination] = r.Outcome.Next
			}
		}
	}
	for _, r := range gone {
		if err := d.PauseGone(ctx, r); err != nil {
			return err
		}
		d.announceAfter(ctx, true, r.Destination)
	}
	if err := d.notices.Note(ctx, deadNotices(results, written)...); err != nil {
		return err
	}
	return d.due.MarkDue(ctx, due, now)
}

// needsTransaction reports whether more than the deliveries is written; PostgreSQL writes these in one statement, which
// most results are: delivered at the first attempt.
func (d *Dispatcher) needsTransaction(results []deliveries.Result) bool {
	return !d.attempts.Postgres() || slices.ContainsFunc(results, func(r deliveries.Result) bool {
		if r.Destination == deliveries.OwnEndpoint && r.Lost() || d.notices.Open() && r.Outcome.Status == deliveries.Dead {
			return true
		}
		return r.Destination != deliveries.OwnEndpoint && (r.Outcome.Status == deliveries.Pending || r.Gone())
	})
}
