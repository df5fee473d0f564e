package sending

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
)

// A wake-up is a hint that costs nothing when it is lost, late, repeated or forged: it names a shard, and its owner
// looks at the database, which it does once a second anyway. Its one other use is to keep what is begun and not sent
// yet from a receiver that was paused meanwhile.

// Peers carries wake-ups to workers, fire and forget. A lost one costs time alone: each worker looks for what is due
// anyway, at least once a second.
type Peers interface {
	Send(worker int64, message []byte)
	// Listen has take called with each message for the worker until stop; take must not block.
	Listen(worker int64, take func(message []byte)) (stop func(), err error)
}

// The news of a shard that a wake-up brings. It holds nothing else: who forges one makes a worker look at the database.
const (
	shardDue    byte = iota // something of it may be due now
	shardPaused             // a receiver of it was paused
)

// appendWakeUp adds two bytes, the news and the shard.
func appendWakeUp(message []byte, news byte, supplierID string) []byte {
	return append(message, news, byte(dispatch.ShardOf(supplierID)))
}

// wakeUps is what this worker was woken for since its last look.
type wakeUps struct {
	mu     sync.Mutex
	due    map[int]struct{}           // shards to look at
	paused [dispatch.Shards]time.Time // when a receiver of the shard was last paused; monotonic
}

// take reads a message of any length. It is called by NATS' goroutine and by this worker itself.
func (w *wakeUps) take(message []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; len(message) >= 2; message = message[2:] {
		shard := int(message[1])
		if message[0] == shardPaused {
			w.paused[shard] = time.Now()
		}
		if w.due == nil {
			w.due = map[int]struct{}{}
		}
		w.due[shard] = struct{}{}
	}
}

// shards returns the shards to look at and forgets them.
func (w *wakeUps) shards() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]int, 0, len(w.due))
	for shard := range w.due {
		list = append(list, shard)
	}
	clear(w.due)
	return list
}

// pausedSince reports whether some receiver of the supplier's shard was paused after the given moment.
func (w *wakeUps) pausedSince(supplierID string, moment time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused[dispatch.ShardOf(supplierID)].After(moment)
}

// woken has this worker look at the shards of a message now. Those that it does not own are dropped by the look.
func (d *owner) woken(message []byte) {
	d.wakeUps.take(message)
	d.Wake()
}

// wakeOwners wakes the workers that own the suppliers, this one among them, after the commit of their due deliveries
// (a). It goes by the owners as this worker last read them: a message to a former owner is ignored there, and the new
// one's look finds the delivery within a second.
func (d *owner) wakeOwners(suppliers map[string]time.Time) {
	messages := map[int64][]byte{}
	for id := range suppliers {
		if id != deliveries.OwnEndpoint {
			owner := d.ownership.owner(id)
			messages[owner] = appendWakeUp(messages[owner], shardDue, id)
		}
	}
	for owner, message := range messages {
		d.wakeWorker(owner, message)
	}
}

// announce wakes the worker that owns the supplier, whichever process this is. Without it the worker finds out at its
// next look. It asks the database who that is, as an api owns nothing and hears of no shard that moves.
func (d *owner) announce(ctx context.Context, paused bool, supplierID string) {
	ctx, cancel := context.WithTimeout(ctx, pollEvery) // by then the owner has looked by itself
	defer cancel()
	news := shardDue
	if paused {
		news = shardPaused
	}
	owner, err := d.workers.owner(ctx, dispatch.ShardOf(supplierID))
	if err != nil {
		d.deps.Log.WarnContext(ctx, "the supplier's worker does not hear at once of a pause or its end", "error", err)
		return
	}
	d.wakeWorker(owner, appendWakeUp(nil, news, supplierID))
}

// wakeWorker sends a message to a worker, without NATS if it is this one.
func (d *owner) wakeWorker(worker int64, message []byte) {
	switch {
	case worker == dispatch.NoOwner: // its next owner looks at all of it
	case worker == d.lease.worker():
		d.woken(message)
	case d.deps.Peers != nil:
		d.deps.Peers.Send(worker, message)
	}
}

// listen takes wake-ups under this worker's id from now on. A subscription that failed is tried again by the next beat;
// until then this worker finds everything by looking.
func (d *owner) listen(worker int64) error {
	if d.deps.Peers == nil || d.listening == worker {
		return nil
	}
	d.stopListening()
	stop, err := d.deps.Peers.Listen(worker, d.woken)
	if err != nil {
		return fmt.Errorf("listen to other workers: %w", err)
	}
	d.unlisten, d.listening = stop, worker
	return nil
}

// stopListening takes no more wake-ups: the lease under whose id they come is over.
func (d *owner) stopListening() {
	if d.unlisten != nil {
		d.unlisten()
		d.unlisten, d.listening = nil, 0
	}
}
