package sending

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
)

// A wake-up is a hint that costs nothing when it is lost, late, repeated or forged: it names a shard, and its owner
// looks at the database, which it does once a second anyway. Its one other use is to keep what is begun and not sent
// yet from a receiver that was paused meanwhile.

// wakeUps is what this worker was woken for since its last look.
type wakeUps struct {
	mu     sync.Mutex
	due    map[int]struct{}        // shards to look at
	paused [round.Shards]time.Time // when a receiver of the shard was last paused; monotonic
}

// take notes a wake-up. It is called by NATS' goroutine and by this worker itself.
func (w *wakeUps) take(m round.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.Paused {
		w.paused[m.Shard] = time.Now()
	}
	if w.due == nil {
		w.due = map[int]struct{}{}
	}
	w.due[m.Shard] = struct{}{}
}

// shards returns the shards to look at and forgets them.
func (w *wakeUps) shards() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer clear(w.due)
	return slices.Collect(maps.Keys(w.due))
}

// pausedSince reports whether some receiver of the supplier's shard was paused after the given moment.
func (w *wakeUps) pausedSince(supplierID string, moment time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused[round.ShardOf(supplierID)].After(moment)
}

// Woken makes this worker look at the message's shard now. One that it does not own is dropped by the look.
func (d *owner) Woken(m round.Message) {
	d.wakeUps.take(m)
	d.Wake()
}

// announceAfter announces after the COMMIT of the transaction in ctx, also where that got no answer.
func (d *owner) announceAfter(ctx context.Context, paused bool, supplierID string) {
	d.deps.DB.AfterTx(ctx, func(end database.End) {
		if end != database.RolledBack {
			d.announce(paused, supplierID)
		}
	})
}

// announce wakes the worker that owns the supplier's shard, whichever process this is. Where the message is lost the
// worker finds out at its next look.
func (d *owner) announce(paused bool, supplierID string) {
	m := round.Message{Shard: round.ShardOf(supplierID), Paused: paused}
	if d.ownership.owns(supplierID) {
		d.Woken(m)
		return
	}
	if d.deps.Publish != nil {
		d.deps.Publish(m)
	}
}
