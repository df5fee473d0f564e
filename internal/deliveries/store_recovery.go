package deliveries

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
)

// A recovery costs its caller one call and the service as much as it finds, so a supplier has one at a time over all
// replicas. The receiver's row says until when it runs. It moves that on after each page; one whose process dies is over
// by itself.

const (
	recoveryFor   = time.Minute      // longer than a page waits for its turn and takes
	recoveryMoves = 10 * time.Second // how often it is moved on
	recoveryAgain = 2 * time.Second  // when another one may be asked for
)

// recovery is one that is under way.
type recovery struct {
	s          *SelfService
	supplierID string
	until      int64
	moved      time.Time
}

// begin begins a recovery of the supplier. Errors: errs.Exhausted while another one runs. A time that is further away
// than any recovery stores it was stored before the clock was set back.
func (s *SelfService) begin(ctx context.Context, supplierID string) (*recovery, error) {
	now := s.deps.Now()
	until := now.Add(recoveryFor).UnixMicro()
	begun, err := database.Exec(ctx, s.store.DB.SQL(ctx), `
		INSERT INTO webhook_receivers AS r (supplier_id, shard, recovering_until, updated_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (supplier_id) DO UPDATE SET recovering_until = excluded.recovering_until
		WHERE coalesce(r.recovering_until, 0) NOT BETWEEN $4 AND $5`,
		supplierID, round.ShardOf(supplierID), until, now.UnixMicro(), now.Add(recoveryFor+clockApart).UnixMicro())
	if err != nil {
		return nil, fmt.Errorf("begin a recovery: %w", err)
	}
	if begun == 0 {
		refusal := errs.New(errs.Exhausted, "Another recovery is still under way.")
		refusal.RetryAfter = recoveryAgain
		return nil, refusal
	}
	return &recovery{s: s, supplierID: supplierID, until: until, moved: time.Now()}, nil
}

// moveOn keeps others out for longer, now and then.
func (r *recovery) moveOn(ctx context.Context) error {
	if time.Since(r.moved) < recoveryMoves {
		return nil
	}
	until := r.s.deps.Now().Add(recoveryFor).UnixMicro()
	if err := r.store(ctx, &until); err != nil {
		return err
	}
	r.until, r.moved = until, time.Now()
	return nil
}

// end lets another recovery begin.
func (r *recovery) end(ctx context.Context) error { return r.store(ctx, nil) }

func (r *recovery) store(ctx context.Context, until *int64) error {
	_, err := database.Exec(ctx, r.s.store.DB.SQL(ctx), `UPDATE webhook_receivers SET recovering_until = $1
		WHERE supplier_id = $2 AND recovering_until = $3`, until, r.supplierID, r.until)
	if err != nil {
		return fmt.Errorf("keep other recoveries out: %w", err)
	}
	return nil
}
