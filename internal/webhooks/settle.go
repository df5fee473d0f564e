package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

// Settled is called with each partition that was settled; here: all of it by this process.
type Settled func(p round.Partition, here bool)

// settlingLease is how long a partition belongs to the process that settles it. It is renewed before each statement,
// and longer than most take: of two that overlap the second waits, and finds nothing left to do.
const settlingLease = 6 * time.Hour

// Settle leaves the partitions that were closed after since and before until as they will be kept, each once, when
// nothing of it is pending: vacuumed and frozen, with full indexes. Then nothing visits them any more, and counting
// what is dropped reads an index alone. Where the role does not own the tables the vacuum is left to autovacuum, and
// the indexes stay as they are.
func (d *Dispatcher) Settle(ctx context.Context, since, until time.Time, done Settled) error {
	list, err := d.Partitions(ctx)
	if err != nil || d.deps.DB.Spread() { // Citus keeps them as tables of other names, on other servers
		return err
	}
	for _, p := range list {
		if p.Closed.Before(since) || p.Closed.After(until) || !p.Settled.IsZero() {
			continue
		}
		if err := d.settle(ctx, p, done); err != nil {
			return fmt.Errorf("settle partition %s: %w", p.Name, err)
		}
	}
	return nil
}

// settle keeps the lease when it fails: where there is no room for an index it is not tried again at once.
func (d *Dispatcher) settle(ctx context.Context, p round.Partition, done Settled) error {
	if unfinished, err := d.store.unfinished(ctx, p); err != nil || unfinished {
		return err
	}
	held, err := d.store.leaseSettling(ctx, p, d.deps.Now())
	if err != nil || !held {
		return err
	}
	here, err := d.store.settle(ctx, p, func() error { return d.store.settling(ctx, p, d.deps.Now().Add(settlingLease)) })
	if ctx.Err() != nil {
		_ = d.store.settling(context.WithoutCancel(ctx), p, time.UnixMicro(0)) // else another process waits for it to end
	}
	if err == nil {
		err = d.store.settled(ctx, p, d.deps.Now())
	}
	if err == nil {
		done(p, here)
	}
	return err
}
