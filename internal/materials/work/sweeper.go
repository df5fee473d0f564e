package work

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// The queue may lose anything at any time: with its store, by a message that was dropped because NATS was away, by a
// process that died between COMMIT and publish. The database knows what must be queued: each row with a ticket. Tickets
// ascend, the queue is first in, first out, so all tickets below that of the first message which the consumer still has
// are in no message any more, once messages on their way have had time to settle. The sweeper gives those a new ticket
// and publishes them again. One api sweeps at a time; if it dies, its lock ends with its transaction.

const (
	sweepInterval = time.Second
	sweepTimeout  = 15 * time.Second
	sweepSettle   = 5 * time.Second // so long work may be on its way into the queue, or out of it to an idle worker
	sweepMessage  = 128             // rounds a message
	sweepQueued   = 64              // messages that the queue may hold before the sweeper waits for it to drain
	sweepLeast    = 4               // messages a look all the same, so that a queue that is never empty starves nothing
)

// RunSweeper queues again, until ctx ends, what no message in the queue names. This, and not the publish, is why
// no accepted request is ever lost: neither by a crash nor by a queue that lost its store.
func (s *Service) RunSweeper(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	var view queueView
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := s.sweep(ctx, &view); err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "sweep failed", "error", err)
		}
	}
}

// sweep looks at the queue and publishes what is lost, as much as the queue has room for.
func (s *Service) sweep(ctx context.Context, view *queueView) error {
	asking, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	last, err := s.deps.DB.LastNumber(asking)
	if err != nil {
		return err
	}
	at := time.Now()
	backlog, err := s.deps.Queue.Backlog(asking, subjectPrefix+">")
	if err != nil {
		view.unavailable(at, last)
		return nil // the queue reports that itself
	}
	below := view.observe(at, last, backlog)
	for room := max(sweepQueued-backlog.Length, sweepLeast); room > 0; room-- {
		n, err := s.Sweep(ctx, below, sweepMessage)
		if err != nil || n < sweepMessage {
			return err
		}
	}
	return nil
}

// Sweep publishes at most limit rounds again whose tickets are below the given one, the oldest first, and those whose
// time to be tried again has come. It returns how many there were; 0 while another process sweeps.
func (s *Service) Sweep(ctx context.Context, below int64, limit int) (published int, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	var lost []materials.Queued
	err = s.deps.DB.InTx(ctx, "queue again", func(ctx context.Context) error {
		held, err := s.deps.DB.TryLock(ctx, "sweeper")
		if err != nil || !held {
			return err
		}
		lost, err = s.store.requeue(ctx, below, s.deps.Now(), limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	s.Publish(lost...)
	return len(lost), nil
}

// queueView is what one process has seen of the numbers and of the queue, and what follows about lost work. The queue
// is first in, first out: a ticket below its first message's is in it no more. A ticket that was taken a moment ago may
// not be in the queue yet, and work that left it a moment ago may still be done: both settle first.
type queueView struct {
	store   int64
	numbers []sighting // the greatest number given out
	// the first ticket in the queue, or behind all numbers when it is empty; empty when it was just lost
	heads []sighting
}

// sighting is a number and when it was seen.
type sighting struct {
	at     time.Time
	number int64
}

// observe returns the ticket below which all are lost.
func (v *queueView) observe(at time.Time, last int64, backlog round.Backlog) (below int64) {
	head, known := last+1, true
	if backlog.First != "" {
		head, known = parseTicket(backlog.First)
	}
	if backlog.Store != v.store {
		v.store, v.heads = backlog.Store, nil // its messages are gone, whatever was first before
	}
	v.numbers = settled(append(v.numbers, sighting{at, last}), at)
	if !known {
		return 0 // a foreign message is first
	}
	v.heads = settled(append(v.heads, sighting{at, head}), at)
	return min(v.numbers[0].number+1, v.heads[0].number)
}

// unavailable forgets what was first in the queue: nothing that was in it is being worked on when it is back.
func (v *queueView) unavailable(at time.Time, last int64) {
	v.numbers, v.heads = settled(append(v.numbers, sighting{at, last}), at), nil
}

// settled drops the sightings before the latest one that is old enough; a young first one stays until another is.
func settled(list []sighting, now time.Time) []sighting {
	first := 0
	for i, s := range list {
		if now.Sub(s.at) >= sweepSettle {
			first = i
		}
	}
	return slices.Delete(list, 0, first)
}
