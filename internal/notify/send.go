package notify

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	sendAtOnce = 8
	sendGrace  = 5 * time.Second // beyond its timeout, after which an attempt counts as interrupted
)

// send makes one attempt for each of some events that are due. An attempt is begun in the database first: of a process
// that dies in it another one sends the event again.
func (d *Notifier) send(ctx context.Context) (busy bool, err error) {
	due, err := d.store.claim(ctx, d.deps.Now(), d.deps.Timeout+sendGrace, sendAtOnce)
	if err != nil {
		return false, err
	}
	var attempts sync.WaitGroup
	for _, e := range due {
		attempts.Go(func() { d.attempt(ctx, e) })
	}
	attempts.Wait()
	return len(due) == sendAtOnce, nil
}

func (d *Notifier) attempt(ctx context.Context, e *event) {
	log := d.deps.Log.With(slog.String("event_id", e.id), slog.String("event_type", e.kind),
		slog.String("supplier_id", e.supplierID), slog.Int64("attempt", e.attempts))
	body, err := e.body()
	if err != nil {
		log.ErrorContext(ctx, "operator event cannot be sent", "error", err)
		return
	}
	verdict := d.deps.Send(ctx, e.id, body, e.attempts)
	switch {
	case verdict.Delivered:
		log.InfoContext(ctx, "operator event delivered")
		err = d.store.forget(ctx, e)
	case verdict.Again.IsZero():
		log.ErrorContext(ctx, "operator event is given up", "error", verdict.Reason, "event", string(body))
		err = d.store.forget(ctx, e)
	default:
		log.WarnContext(ctx, "operator event is not delivered yet", "error", verdict.Reason, "next_attempt_at", verdict.Again)
		err = d.store.putOff(ctx, e, verdict.Again)
	}
	if err != nil { // it counts as interrupted
		log.WarnContext(ctx, "write operator event down failed", "error", err)
	}
}
