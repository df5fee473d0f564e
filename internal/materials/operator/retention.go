package operator

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
)

// pruneBatch is how many requests are deleted in one transaction.
const pruneBatch = 500

// Pruned is how much retention deleted.
type Pruned struct {
	Requests int64 `json:"requests"` // each with its rounds
	Events   int64 `json:"events"`   // each with its deliveries and attempts
}

// Old is what retention deletes: what was made and last changed before a time.
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

// Prune deletes the old requests, each in one transaction with all that belongs to it: rounds, events, deliveries. What
// has been pending to a supplier's receiver for as long is dead before. What is enqueued stays, and so does a request
// of which something else is pending. Afterwards a supplier may use such an id for another request, which has nothing
// in common with the old one. done is called with what is deleted so far.
func (s *Service) Prune(ctx context.Context, old Old, done func(Pruned)) (Pruned, error) {
	if err := s.deps.Events.End(ctx, old.Before, old.Reason); err != nil {
		return Pruned{}, fmt.Errorf("end old deliveries: %w", err)
	}
	return s.prune(ctx, pruning{made: old.Before, changed: old.Before,
		of: round.Partition{First: math.MinInt64, End: math.MaxInt64}}, done)
}

// pruning is which requests are deleted: those of a partition that were made and last changed before the two times.
type pruning struct {
	made, changed time.Time
	of            round.Partition
	dropped       bool // their events are not deleted with them: the partition is dropped
}

func (s *Service) prune(ctx context.Context, what pruning, done func(Pruned)) (p Pruned, err error) {
	suppliers, err := s.store.suppliers(ctx)
	if err != nil {
		return p, fmt.Errorf("prune requests: %w", err)
	}
	var writing time.Time
	for _, supplier := range suppliers {
		var after place // behind which the next batch begins: what is kept is looked at once
		for more := true; more; {
			var batch Pruned
			err := s.deps.DB.InTx(ctx, "delete old requests", func(ctx context.Context) (err error) {
				batch, after, more, err = s.pruneBatch(ctx, supplier, after, what)
				return err
			})
			if err != nil {
				return p, fmt.Errorf("prune requests of %s: %w", supplier, database.Translate(err))
			}
			p.Requests, p.Events = p.Requests+batch.Requests, p.Events+batch.Events
			done(p)
			writing = s.deps.DB.Yield(ctx, writing)
		}
	}
	return p, ctx.Err()
}

// pruneBatch deletes the supplier's oldest requests behind one, and returns how many, the last that it looked at and
// whether there may be more; none while another process prunes. Deliveries are locked before requests, as everywhere.
func (s *Service) pruneBatch(ctx context.Context, supplier string, after place, what pruning) (
	p Pruned, last place, more bool, err error) {
	held, err := s.deps.DB.TryLock(ctx, "retention")
	if err != nil || !held {
		return p, after, false, err
	}
	rounds, last, err := s.store.oldest(ctx, supplier, after, what, pruneBatch)
	if err != nil || len(rounds) == 0 {
		return p, after, false, err
	}
	more = len(rounds) == pruneBatch
	if !what.dropped {
		if rounds, err = s.deps.Events.Hold(ctx, rounds); err != nil {
			return p, after, false, err
		}
	}
	if rounds, err = s.store.lockOld(ctx, supplier, rounds, what); err != nil || len(rounds) == 0 {
		return p, last, more, err
	}
	if !what.dropped {
		if p.Events, err = s.deps.Events.Forget(ctx, rounds); err != nil {
			return p, after, false, err
		}
	}
	p.Requests = int64(len(rounds))
	return p, last, more, s.store.prune(ctx, rounds)
}
