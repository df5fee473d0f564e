package deliveries

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Partitions of events, deliveries and attempts, on PostgreSQL. A partition is of the uids of some days, and its
// borders are known for all time, so it is made ahead and opened when its first day comes (Advance). Retention drops
// one when all of it is old: it is checked, detached, and only later deleted from the disk, table by table
// (DeleteDropped). Each step is a transaction of its own and can be done by any process, once more too: a crash leaves
// a partition that is made and not opened, or detached and not deleted, and the next run goes on from there.

// A drop waits for no lock longer than a moment, so that nothing waits for it, and is tried again.
const (
	dropTries = 20
	dropPause = 500 * time.Millisecond
)

// Advance makes the next partition of events, of so many days, and has new requests be of it when its first day has
// come. One process at a time does. SQLite has no partitions. Where no process comes to do it, uids go on in the
// partition that they are in: retention then drops days later, and nothing else happens.
func (d *Keeper) Advance(ctx context.Context, days int) error {
	for more := d.store.Postgres(); more; {
		var err error
		if more, err = d.store.advance(ctx, d.deps.Now(), days); err != nil {
			return fmt.Errorf("make partitions: %w", err)
		}
	}
	return nil
}

// Partitions returns those of events that requests were or are of, the oldest first; none on SQLite.
func (d *Keeper) Partitions(ctx context.Context) ([]round.Partition, error) {
	if !d.store.Postgres() {
		return nil, nil
	}
	return d.store.partitions(ctx)
}

// Unfinished reports whether something of the partition is still to be delivered. It locks nothing: Drop asks once
// more, when redeliveries are kept out.
func (d *Keeper) Unfinished(ctx context.Context, p round.Partition) (bool, error) {
	return d.store.unfinished(ctx, p)
}

// Keep notes why the partition is not dropped, for the doctor and the gauge of kept partitions.
func (d *Keeper) Keep(ctx context.Context, p round.Partition, why string) error {
	return d.store.keep(ctx, p, why)
}

// Drop drops the events, deliveries and attempts of a partition's requests, which no request may be of any more. It
// returns why it did not; empty: they are gone, and DeleteDropped gives their room on the disk back.
func (d *Keeper) Drop(ctx context.Context, p round.Partition) (why string, err error) {
	for range dropTries {
		if why, err = d.store.drop(database.ForMaintenance(ctx), p); err != nil || why == "" {
			break
		}
		select {
		case <-time.After(dropPause):
		case <-ctx.Done():
			return why, ctx.Err()
		}
	}
	return why, errs.Doing("drop partition "+p.Name, err)
}

// DeleteDropped deletes one table of what was dropped, if there is one. Called from time to time it deletes all of them
// without making others wait for the disk for long.
func (d *Keeper) DeleteDropped(ctx context.Context) error {
	if !d.store.Postgres() {
		return nil
	}
	_, err := d.store.deleteDropped(ctx)
	return err
}
