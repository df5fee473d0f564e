package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/supplyhub/supplyhub/internal/groupcommit"
)

// errorLimit is the longest error text that is kept, in bytes.
const errorLimit = 500

// result is the end of an attempt as it is written down.
type result struct {
	begun
	began    time.Time
	took     time.Duration
	status   *int64
	err      string
	response []byte
	outcome  Outcome

	ended    time.Time // by the database's clock
	measured time.Time // the same moment by this process's
}

// rebase moves the next attempt to the database's time now. Results may wait for a failover to a server whose clock is
// another one.
func (r *result) rebase(now time.Time) {
	if r.outcome.Status == Pending && !r.measured.IsZero() {
		r.outcome.Next = now.Add(r.outcome.Next.Sub(r.ended) - time.Since(r.measured))
		r.ended, r.measured = now, time.Now()
	}
}

func newResult(j begun, a answer, outcome Outcome, began time.Time, took time.Duration) result {
	r := result{begun: j, began: began, took: took, response: a.body, outcome: outcome}
	if a.status != 0 {
		status := int64(a.status)
		r.status = &status
	}
	if a.err != nil {
		r.err = cleanText(a.err.Error())
	}
	return r
}

// cleanText makes any text fit for the database: bounded, valid UTF-8, without NUL.
func cleanText(text string) string {
	if len(text) > errorLimit {
		text = text[:errorLimit]
		for !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}

// reason returns in a few words why the attempt did not deliver.
func (r result) reason() string {
	if r.err != "" {
		return r.err
	}
	if r.status != nil {
		return fmt.Sprintf("status %d", *r.status)
	}
	return "no answer"
}

// record has the result written down, however long the database is unavailable, until the process has to end. It does
// not wait.
func (d *Dispatcher) record(ctx context.Context, r result, pause time.Duration) {
	done := func(_ struct{}, err error) {
		if err == nil {
			d.written(r.id)
			return
		}
		go d.recordAgain(ctx, r, pause, err)
	}
	if err := d.results.Enqueue(d.writing, r, done); err != nil {
		done(struct{}{}, err)
	}
}

func (d *Dispatcher) recordAgain(ctx context.Context, r result, pause time.Duration, cause error) {
	if errors.Is(cause, groupcommit.ErrClosed) || d.writing.Err() != nil {
		d.deps.Log.ErrorContext(ctx, "write webhook delivery attempt down failed: it counts as interrupted", "error", cause)
		d.written(r.id)
		return
	}
	d.deps.Log.WarnContext(ctx, "write webhook delivery attempt down failed, it is tried again", "error", cause)
	sleep(d.writing, pause, nil)
	d.record(ctx, r, min(2*pause, recordAgainMax))
}

// flushResults writes a batch of results down. The batch belongs to no single attempt, so nothing of its context is
// used.
func (d *Dispatcher) flushResults(_ context.Context, results []result) ([]struct{}, error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	now := d.deps.Now()
	for i := range results {
		results[i].rebase(now)
	}
	if !d.needsTransaction(results) {
		_, err := d.attempts.finish(ctx, results, now)
		return make([]struct{}, len(results)), err
	}
	err := d.deps.DB.InTx(ctx, "write results", func(ctx context.Context) error {
		written, err := d.attempts.finish(ctx, results, now)
		if err != nil {
			return err
		}
		return d.follow(ctx, results, written, now)
	})
	return make([]struct{}, len(results)), err
}

// follow stores what the ends of attempts mean beyond their deliveries: requests that are lost, receivers that are due
// again or want nothing more.
func (d *Dispatcher) follow(ctx context.Context, results []result, written map[string]bool, now time.Time) error {
	due := map[string]time.Time{}
	var gone []result
	ordered := slices.SortedFunc(slices.Values(results), result.byRequest) // as lockByID says: requests, then receivers
	for _, r := range ordered {
		switch {
		case !written[r.id]:
		case r.gone():
			gone = append(gone, r)
		case r.lost():
			if err := d.lost(ctx, r.begun, r.reason()); err != nil {
				return err
			}
		case r.outcome.Status == Pending:
			if at, known := due[r.destination]; !known || r.outcome.Next.Before(at) {
				due[r.destination] = r.outcome.Next
			}
		}
	}
	for _, r := range gone {
		if err := d.pauseReceiver(ctx, r.destination, PausedByService, r.reason()); err != nil {
			return err
		}
		d.woken(appendWakeUp(nil, shardPaused, r.destination))
	}
	if err := d.notices.Note(ctx, deadNotices(results, written)...); err != nil {
		return err
	}
	return d.due.markDue(ctx, due, now)
}

func (r result) byRequest(other result) int {
	return cmp.Or(cmp.Compare(r.round.SupplierID, other.round.SupplierID),
		cmp.Compare(r.round.RequestID, other.round.RequestID))
}

func (r result) lost() bool { return r.outcome.Status == Dead || r.outcome.Status == Failed }

// needsTransaction reports whether more than the deliveries is written; PostgreSQL writes these in one statement.
func (d *Dispatcher) needsTransaction(results []result) bool {
	return !d.store.postgres() || slices.ContainsFunc(results, func(r result) bool {
		if r.destination == ownEndpoint && r.lost() || d.notices.Open() && r.outcome.Status == Dead {
			return true
		}
		return r.destination != ownEndpoint && (r.outcome.Status == Pending || r.gone())
	})
}
