package sending

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// workerStore keeps which workers live, and which shards they own. Both tables are small and are read whole by each
// beat, so all workers compute from the same rows what each is to do.
type workerStore struct{ deliveries.Tables }

// newLease registers a worker under a number that no other ever had. Its lease ends at the given time unless it is
// renewed; the worker's attempts name this number. A COMMIT without an answer leaves a row that is never renewed: the
// others find it dead and delete it.
func (s *workerStore) newLease(ctx context.Context, until time.Time) (id int64, err error) {
	err = s.DB.InTx(ctx, "register a worker", func(ctx context.Context) error {
		if id, err = s.DB.Numbers(ctx, 1); err != nil {
			return err
		}
		_, err = database.Exec(ctx, s.DB.SQL(ctx), `INSERT INTO workers (id, alive_until) VALUES ($1, $2)`, id,
			until.UnixMicro())
		return err
	})
	return id, errs.Doing("store a worker's lease", err)
}

// The values that takeOver is given for a worker's lease instead of a renewal that was read.
const (
	anyRenewal int64 = -1 // it ends whatever it says
	noRenewal  int64 = -2 // it is only taken over from when it has no row
)

// takeOver ends the worker's lease unless it was renewed since the given renewal, makes its attempts due again and
// returns how many they were. The worker finds its lease gone, and each of its results names it.
//
// It is f. The lease ends by a statement of its own, so that the worker's shards are free whatever happens to its
// attempts: their owner has no lease now, and rebalance takes them. Several workers may do this at the same time:
// attempts that one made due have no worker any more for the second. An attempt that is not free is left to the next
// look, like all of a transaction that failed: its worker has no lease (reclaimLost).
func (s *workerStore) takeOver(ctx context.Context, worker, renewal int64, now time.Time) (n int64, err error) {
	_, err = database.Exec(ctx, s.DB.SQL(ctx), `DELETE FROM workers
		WHERE id = $1 AND (alive_until = $2 OR CAST($2 AS bigint) = -1)`, worker, renewal)
	if err != nil {
		return 0, fmt.Errorf("end a worker's lease: %w", err)
	}
	err = s.DB.InTx(ctx, "take over a dead worker's attempts", func(ctx context.Context) error {
		destinations, err := database.Column[string](ctx, s.DB.SQL(ctx),
			`UPDATE webhook_deliveries SET worker = NULL, next_attempt_at = $1, updated_at = $1
			WHERE `+s.DB.Free("webhook_deliveries", "id", `worker = $2 AND NOT EXISTS (SELECT 1 FROM workers WHERE id = $2)`)+`
			RETURNING destination`, now.UnixMicro(), worker)
		if err != nil {
			return err
		}
		n = int64(len(destinations))
		return deliveries.NewDueStore(s.DB).DueNow(ctx, destinations, now)
	})
	if err != nil {
		return 0, fmt.Errorf("take over: %w", err)
	}
	return n, nil
}
