package materials

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
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
// supplier may use such an id for another request, which has nothing in common with the old one.
func (s *Service) Prune(ctx context.Context, before time.Time) (p Pruned, err error) {
	suppliers, err := s.store.suppliers(ctx)
	if err != nil {
		return p, fmt.Errorf("prune requests: %w", err)
	}
	for _, supplier := range suppliers {
		for n := int64(pruneBatch); n == pruneBatch; {
			var batch Pruned
			err := s.deps.DB.InTx(ctx, func(ctx context.Context) (err error) {
				batch, err = s.pruneBatch(ctx, supplier, before)
				return err
			})
			if err != nil {
				return p, fmt.Errorf("prune requests of %s: %w", supplier, database.Translate(err))
			}
			n = batch.Requests
			p.Requests, p.Events = p.Requests+n, p.Events+batch.Events
		}
	}
	return p, ctx.Err()
}

// pruneBatch deletes the supplier's oldest requests and returns how many; 0 as well while another process prunes.
func (s *Service) pruneBatch(ctx context.Context, supplier string, before time.Time) (p Pruned, err error) {
	held, err := s.deps.DB.TryLock(ctx, "retention")
	if err != nil || !held {
		return p, err
	}
	rounds, err := s.store.oldest(ctx, supplier, before, pruneBatch)
	if err != nil || len(rounds) == 0 {
		return p, err
	}
	p.Requests = int64(len(rounds))
	if p.Events, err = s.deps.Outbox.Forget(ctx, rounds); err != nil {
		return Pruned{}, err
	}
	return p, s.store.prune(ctx, rounds)
}
