package operator

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// One transaction deletes so many requests at most, and so many rounds: others cannot write to SQLite meanwhile.
const pruneBatch, pruneRounds = 500, 1000

// pruneAgain is when a batch is tried again that another process's held up.
const pruneAgain = 100 * time.Millisecond

// Pruned is how much retention deleted.
type Pruned struct {
	Requests int64 `json:"requests"` // each with its rounds
	Events   int64 `json:"events"`   // each with its deliveries and attempts
}

// Old is what retention deletes: rows made and last changed before a time.
type Old struct {
	Before time.Time
	Reason string // why a delivery is dead that is pending since then
}

// Days returns what is older than so many days.
func Days(now time.Time, n int) Old {
	return Old{now.AddDate(0, 0, -n), fmt.Sprintf("not delivered within %d days", n)}
}

// Before returns what is from before the given time.
func Before(at time.Time) Old {
	return Old{at, "not delivered by " + at.UTC().Format(time.RFC3339)}
}

// Prune deletes the old requests, each in one transaction with all that belongs to it: rounds, events, deliveries. One
// of more than pruneRounds loses its earliest rounds before, in transactions of their own. Until the last one, in which
// it goes itself, it is shown as it was, with the estimates of its last round and with fewer rounds before; after a
// crash the next run deletes the rest. A delivery to a supplier's receiver that has been pending for as long is dead
// before. An enqueued request stays, and so does one of which something else is pending, with the rounds from there on.
// Afterwards a supplier may use such an id for another request, which has nothing in common with the old one.
func (s *Service) Prune(ctx context.Context, old Old) (Pruned, error) {
	if err := s.deps.Events.End(ctx, old.Before, old.Reason); err != nil {
		return Pruned{}, fmt.Errorf("end old deliveries: %w", err)
	}
	return s.prune(ctx, pruning{made: old.Before, changed: old.Before, waits: true,
		of: round.Partition{First: math.MinInt64, End: math.MaxInt64}})
}

// pruning is which requests are deleted: those of a partition that were made and last changed before the two times.
type pruning struct {
	made, changed time.Time
	of            round.Partition
	dropped       bool // their events are not deleted with them: the partition is dropped
	waits         bool // while another process prunes, whose times may be others; else that one is left to do it
}

// prune goes through the requests in the order in which they were accepted, and ends behind a batch of which all were
// made later.
func (s *Service) prune(ctx context.Context, what pruning) (p Pruned, err error) {
	var writing time.Time
	for from, more := what.of.First, true; more && ctx.Err() == nil; {
		var old []round.Round
		begin, alone := from, true
		if old, from, more, err = s.store.old(ctx, from, what, pruneBatch); err != nil {
			return p, fmt.Errorf("prune requests: %w", err)
		}
		err := database.BySupplier(s.deps.DB, old, func(r round.Round) string { return r.SupplierID },
			func(rounds []round.Round) (err error) {
				for upTo := int64(pruneRounds); len(rounds) > 0 && err == nil; upTo += pruneRounds {
					err = s.deps.DB.InTx(ctx, "delete old requests", func(ctx context.Context) error {
						batch, left, held, err := s.pruneUpTo(ctx, rounds, upTo, what)
						p.Requests, p.Events = p.Requests+batch.Requests, p.Events+batch.Events
						rounds, alone = left, alone && held
						return err
					})
					writing = s.deps.DB.Yield(ctx, writing)
				}
				return err
			})
		if err != nil {
			return p, fmt.Errorf("prune requests: %w", err)
		}
		if !alone {
			from, more = begin, what.waits
			sleep.For(ctx, pruneAgain)
		}
	}
	return p, ctx.Err()
}

// pruneUpTo deletes the rounds up to a number of those requests that are still to be deleted, and returns which of them
// have more; none, and held is false, while another process prunes. Deliveries are locked before requests, as
// everywhere.
func (s *Service) pruneUpTo(ctx context.Context, rounds []round.Round, upTo int64, what pruning) (
	p Pruned, left []round.Round, held bool, err error) {
	if held, err = s.deps.DB.TryLock(ctx, "retention"); err != nil || !held {
		return p, nil, held, err
	}
	if !what.dropped {
		if rounds, err = s.deps.Events.Hold(ctx, rounds, upTo); err != nil {
			return p, nil, true, err
		}
	}
	if rounds, err = s.store.lockOld(ctx, rounds, what); err != nil || len(rounds) == 0 {
		return p, nil, true, err
	}
	if !what.dropped {
		if p.Events, err = s.deps.Events.Forget(ctx, rounds, upTo); err != nil {
			return p, nil, true, err
		}
	}
	p.Requests, err = s.store.prune(ctx, rounds, upTo)
	return p, slices.DeleteFunc(rounds, func(r round.Round) bool { return r.Number <= upTo }), true, err
}

// madeBefore returns when all requests of a partition were made, whatever the clocks of those days: a day after it was
// closed at the latest.
func madeBefore(p round.Partition) time.Time { return p.Closed.AddDate(0, 0, 1) }

// Expire is Prune as the service does it by itself. Where events are in partitions, one is dropped, with its requests,
// when all of it is old: it is kept while a delivery is pending or a request was changed of late, and its other
// requests are deleted one by one. So is what was there before partitions were made, until all of that is old. done is
// called with each partition that is dropped, or kept for a reason.
func (s *Service) Expire(ctx context.Context, old Old, done func(p round.Partition, kept string)) (
	sum Pruned, err error) {
	all, err := s.deps.Partitions.Partitions(ctx)
	if err != nil {
		return sum, err
	}
	if len(all) == 0 || all[0].Opened.IsZero() && !isOver(all[0], old.Before) {
		return s.Prune(ctx, old)
	}
	if err := s.deps.Events.End(ctx, old.Before, old.Reason); err != nil {
		return sum, fmt.Errorf("end old deliveries: %w", err)
	}
	for _, p := range all {
		if !isOver(p, old.Before) {
			break
		}
		pruned, kept, err := s.expire(ctx, p, old.Before)
		sum.Requests, sum.Events = sum.Requests+pruned.Requests, sum.Events+pruned.Events
		if err == nil && kept != "" {
			err = s.deps.Partitions.Keep(ctx, p, kept)
		}
		if err != nil {
			return sum, fmt.Errorf("expire partition %s: %w", p.Name, err)
		}
		done(p, kept)
	}
	return sum, nil
}

// isOver reports whether all requests of the partition were made before the given time.
func isOver(p round.Partition, before time.Time) bool {
	return !p.Closed.IsZero() && p.Closed.Before(before)
}

// expire drops the partition, or returns why it is kept, without those of its requests that are old and over.
func (s *Service) expire(ctx context.Context, p round.Partition, before time.Time) (
	pruned Pruned, kept string, err error) {
	if kept, err = s.whyKept(ctx, p, before); err != nil {
		return pruned, "", err
	}
	made := madeBefore(p)
	if made.After(before) {
		made = before
	}
	pruned, err = s.prune(ctx, pruning{made: made, changed: before, of: p, dropped: kept == ""})
	if err != nil || kept != "" {
		return pruned, kept, err
	}
	left, err := s.store.holds(ctx, p, time.UnixMicro(0)) // another process deletes them, or they were changed meanwhile
	if err != nil || left {
		return pruned, "requests are left", err
	}
	kept, err = s.deps.Partitions.Drop(ctx, p)
	return pruned, kept, err
}

// whyKept returns why the partition cannot be dropped; empty: it can.
func (s *Service) whyKept(ctx context.Context, p round.Partition, since time.Time) (string, error) {
	unfinished, err := s.deps.Partitions.Unfinished(ctx, p)
	switch {
	case err != nil:
		return "", err
	case unfinished:
		return "deliveries are pending", nil
	}
	held, err := s.store.holds(ctx, p, since)
	if held {
		return "requests are enqueued or were changed of late", err
	}
	return "", err
}
