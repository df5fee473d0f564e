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

// Prune deletes the requests that were made and last changed before the given time, each in one transaction with all
// that belongs to it: rounds, events, deliveries, whatever is still tried of them. What is enqueued stays. Afterwards a
// supplier may use such an id for another request, which has nothing in common with the old one. done is called with
// what is deleted so far.
func (s *Service) Prune(ctx context.Context, before time.Time, done func(Pruned)) (Pruned, error) {
	return s.prune(ctx, pruning{made: before, changed: before,
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
		var since int64 // where the next batch begins: what is kept is looked at once
		for n := int64(pruneBatch); n == pruneBatch; {
			var batch Pruned
			var last int64
			err := s.deps.DB.InTx(ctx, "delete old requests", func(ctx context.Context) (err error) {
				batch, last, err = s.pruneBatch(ctx, supplier, since, what)
				return err
			})
			if err != nil {
				return p, fmt.Errorf("prune requests of %s: %w", supplier, database.Translate(err))
			}
			n, since = batch.Requests, last
			p.Requests, p.Events = p.Requests+n, p.Events+batch.Events
			done(p)
			writing = s.deps.DB.Yield(ctx, writing)
		}
	}
	return p, ctx.Err()
}

// pruneBatch deletes the supplier's oldest requests made since then or later and returns how many, and when the last of
// them was made; 0 as well while another process prunes.
func (s *Service) pruneBatch(ctx context.Context, supplier string, since int64, what pruning) (
	p Pruned, last int64, err error) {
	held, err := s.deps.DB.TryLock(ctx, "retention")
	if err != nil || !held {
		return p, since, err
	}
	rounds, last, err := s.store.oldest(ctx, supplier, since, what, pruneBatch)
	if err != nil || len(rounds) == 0 {
		return p, since, err
	}
	p.Requests = int64(len(rounds))
	if !what.dropped {
		if p.Events, err = s.deps.Events.Forget(ctx, rounds); err != nil {
			return Pruned{}, since, err
		}
	}
	return p, last, s.store.prune(ctx, rounds)
}
