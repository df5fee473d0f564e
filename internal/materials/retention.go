package materials

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// pruneBatch is how many requests are deleted in one transaction.
const pruneBatch = 500

// Prune deletes the requests that were made and last changed before the given time, with their estimates, and tells how
// many they were. What is enqueued stays. Afterwards a supplier may use such an id for another request.
func (s *Service) Prune(ctx context.Context, before time.Time) (deleted int64, err error) {
	suppliers, err := s.store.suppliers(ctx)
	if err != nil {
		return 0, fmt.Errorf("prune requests: %w", err)
	}
	for _, supplier := range suppliers {
		for n := pruneBatch; n == pruneBatch; {
			err := s.deps.DB.InTx(ctx, func(ctx context.Context) (err error) {
				n, err = s.store.prune(ctx, supplier, before, pruneBatch)
				return err
			})
			if err != nil {
				return deleted, fmt.Errorf("prune requests of %s: %w", supplier, database.Translate(err))
			}
			deleted += int64(n)
		}
	}
	return deleted, ctx.Err()
}
