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

// prune goes through the requests in the order in which they were accepted, and ends behind a batch of which all were
// made later.
func (s *Service) prune(ctx context.Context, what pruning, done func(Pruned)) (p Pruned, err error) {
	var writing time.Time
	for from, more := what.of.First, true; more; {
		var old []round.Round
		if old, from, more, err = s.store.old(ctx, from, what, pruneBatch); err != nil {
			return p, fmt.Errorf("prune requests: %w", err)
		}
		err := database.BySupplier(s.deps.DB, old, func(r round.Round) string { return r.SupplierID }, func(rounds []round.Round) error {
			if len(rounds) == 0 {
				return nil
			}
			return s.deps.DB.InTx(ctx, "delete old requests", func(ctx context.Context) error {
				batch, held, err := s.pruneBatch(ctx, rounds, what)
				p.Requests, p.Events, more = p.Requests+batch.Requests, p.Events+batch.Events, more && held
				return err
			})
		})
		if err != nil {
			return p, fmt.Errorf("prune requests: %w", database.Translate(err))
		}
		done(p)
		writing = s.deps.DB.Yield(ctx, writing)
	}
	return p, ctx.Err()
}

// pruneBatch deletes those of the requests that are still to be deleted; none, and held is false, while another process
// prunes. Deliveries are locked before requests, as everywhere.
func (s *Service) pruneBatch(ctx context.Context, rounds []round.Round, what pruning) (p Pruned, held bool, err error) {
	if held, err = s.deps.DB.TryLock(ctx, "retention"); err != nil || !held {
		return p, held, err
	}
	if !what.dropped {
		if rounds, err = s.deps.Events.Hold(ctx, rounds); err != nil {
			return p, true, err
		}
	}
	if rounds, err = s.store.lockOld(ctx, rounds, what); err != nil || len(rounds) == 0 {
		return p, true, err
	}
	if !what.dropped {
		if p.Events, err = s.deps.Events.Forget(ctx, rounds); err != nil {
			return p, true, err
		}
	}
	p.Requests = int64(len(rounds))
	return p, true, s.store.prune(ctx, rounds)
}
