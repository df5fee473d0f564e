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
// replicas. The receiver's row says until when it runs. The recovery moves that on while it waits and while it works;
// one whose process dies, or whose begin was stored without an answer, is over by itself soon.

const (
	recoveryFor   = 10 * time.Second        // how long one that does not end keeps others out
	recoveryMoves = 2500 * time.Millisecond // how often it is moved on
	recoveryStore = 3 * time.Second         // how long that may take
	recoveryAgain = 2 * time.Second         // when another one may be asked for
)

// recovery is one that is under way.
type recovery struct {
	s          *SelfService
	supplierID string
	until      int64 // what the row says
	tried      int64 // what it says instead, if that was stored without an answer
	stop       context.CancelFunc
	stopped    chan struct{}
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
		return nil, errs.NewExhausted("Another recovery is still under way.", recoveryAgain)
	}
	r := &recovery{s: s, supplierID: supplierID, until: until, tried: until, stopped: make(chan struct{})}
	ctx, r.stop = context.WithCancel(ctx)
	go r.moveOn(ctx)
	return r, nil
}

// moveOn keeps others out for longer, until ctx ends. A move that could not be stored is stored the next time.
func (r *recovery) moveOn(ctx context.Context) {
	defer close(r.stopped)
	for ticks := time.Tick(recoveryMoves); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		until := r.s.deps.Now().Add(recoveryFor).UnixMicro()
		if r.store(ctx, &until) == nil {
			r.until = until
		}
		r.tried = until
	}
}

// end lets another recovery begin, also when the caller has gone.
func (r *recovery) end(ctx context.Context) error {
	r.stop()
	<-r.stopped
	return r.store(context.WithoutCancel(ctx), nil)
}

func (r *recovery) store(ctx context.Context, until *int64) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryStore)
	defer cancel()
	_, err := database.Exec(ctx, r.s.store.DB.SQL(ctx), `UPDATE webhook_receivers SET recovering_until = $1
		WHERE supplier_id = $2 AND recovering_until IN ($3, $4)`, until, r.supplierID, r.until, r.tried)
	return errs.Doing("keep other recoveries out", err)
}
