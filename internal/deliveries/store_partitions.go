package deliveries

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// Partitions of events, deliveries and attempts, on PostgreSQL. A partition has the uids of some days, and its
// borders are known for all time, so it is made ahead and opened when its first day comes (Advance). Retention drops
// one when all of it is old: it is checked, detached, and only later deleted from the disk, table by table
// (DeleteDropped). Each step is a transaction of its own and can be done by any process, once more too: a crash leaves
// a partition that is made and not opened, or detached and not deleted, and the next run goes on from there. The
// functions of the schema run with its owner's rights: the service's role makes and drops no tables.

// A drop waits for no lock longer than a moment, so that nothing waits for it, and is tried again.
const (
	dropTries = 20
	dropPause = 500 * time.Millisecond
)

// redeliveries is the lock that redeliveries share (h), and without which no partition is dropped: nothing that has
// ended becomes pending between a drop's look and its end. Retention's own end of deliveries (g) needs no such lock.
const redeliveries = "redeliveries"

// Advance makes the next partition of events, of so many days, and sends new requests to it from its first day on. Only
// one process does this at a time. SQLite has no partitions. Where no process comes to do it, uids go on in the
// partition that they are in: retention then drops days later, and nothing else happens.
func (d *Keeper) Advance(ctx context.Context, days int) (err error) {
	for more := d.store.Postgres(); more && err == nil; {
		more = false
		err = d.deps.DB.InTx(ctx, "open a partition", func(ctx context.Context) error {
			held, err := d.deps.DB.TryLock(ctx, "partitions")
			if err != nil || !held {
				return err
			}
			_, err = database.One(ctx, d.deps.DB.SQL(ctx), `SELECT advance_webhook_partitions($1, $2)`,
				[]any{d.deps.Now().UnixMicro(), days}, &more)
			return err
		})
	}
	return errs.Doing("make partitions", err)
}

// Partitions returns those of events that requests belong or belonged to, the oldest first; none on SQLite. One that
// was made ahead has no rows yet and is not among them.
func (d *Keeper) Partitions(ctx context.Context) ([]round.Partition, error) {
	if !d.store.Postgres() {
		return nil, nil
	}
	list, err := database.Query(ctx, d.deps.DB.ReaderSQL(ctx), `SELECT name, first_uid, end_uid, nullif(opened_at, 0),
		closed_at, kept FROM webhook_partitions WHERE opened_at IS NOT NULL ORDER BY first_uid`, nil,
		func(p *round.Partition) []any {
			return []any{&p.Name, &p.First, &p.End, scanTime{&p.Opened}, scanTime{&p.Closed}, &p.Kept}
		})
	return list, errs.Doing("read partitions", err)
}

// Unfinished reports whether something of the partition is still to be delivered. It locks nothing: Drop asks once
// more, when redeliveries are kept out. It looks only into the indexes of what is pending: of what waits, and of what a
// worker has.
func (d *Keeper) Unfinished(ctx context.Context, p round.Partition) (is bool, err error) {
	first, end := borders(p)
	_, err = database.One(ctx, d.deps.DB.ReaderSQL(ctx), `SELECT EXISTS (SELECT 1 FROM webhook_deliveries
			WHERE status = 'pending' AND worker IS NULL AND id >= $1 AND id < $2)
		OR EXISTS (SELECT 1 FROM webhook_deliveries WHERE worker IS NOT NULL AND id >= $1 AND id < $2)`, []any{first, end},
		&is)
	return is, errs.Doing("look for pending deliveries of partition "+p.Name, err)
}

// borders returns what the webhook-ids of the partition are between.
func borders(p round.Partition) (first, end string) {
	if p.First > 0 {
		first = round.Border(p.First)
	}
	return first, round.Border(p.End)
}

// Keep notes why the partition is not dropped, for the doctor and the gauge of kept partitions.
func (d *Keeper) Keep(ctx context.Context, p round.Partition, why string) error {
	_, err := database.Exec(ctx, d.deps.DB.SQL(ctx),
		`UPDATE webhook_partitions SET kept = $1 WHERE name = $2 AND kept <> $1`, why, p.Name)
	return errs.Doing("note why partition "+p.Name+" is kept", err)
}

// Drop drops the events, deliveries and attempts of a partition that no request belongs to any longer. It returns why
// it did not, or nothing once they are gone; then DeleteDropped frees their disk space.
func (d *Keeper) Drop(ctx context.Context, p round.Partition) (why string, err error) {
	for range dropTries {
		if why, err = d.drop(database.ForMaintenance(ctx), p); err != nil || why == "" {
			break
		}
		if sleep.For(ctx, dropPause); ctx.Err() != nil {
			return why, ctx.Err()
		}
	}
	return why, errs.Doing("drop partition "+p.Name, err)
}

// drop detaches the partition's tables, or returns why it did not. While a redelivery is under way it does not even
// wait: a lock that waits would make later redeliveries wait behind it.
func (d *Keeper) drop(ctx context.Context, p round.Partition) (why string, err error) {
	err = d.deps.DB.InTx(ctx, "drop a partition", func(ctx context.Context) error {
		if held, err := d.deps.DB.TryLock(ctx, redeliveries); err != nil || !held {
			why = "its deliveries are being redelivered"
			return err
		}
		_, err = database.One(ctx, d.deps.DB.SQL(ctx), `SELECT drop_webhook_partition($1)`, []any{p.First}, &why)
		return err
	})
	return why, err
}

// DeleteDropped deletes one table of what was dropped, if there is one. Called from time to time it deletes all of them
// without making others wait for the disk for long.
func (d *Keeper) DeleteDropped(ctx context.Context) error {
	if !d.store.Postgres() {
		return nil
	}
	_, err := d.deleteDropped(ctx)
	return err
}

// deleteDropped deletes one detached table, the first by name, and reports whether there was one.
func (d *Keeper) deleteDropped(ctx context.Context) (is bool, err error) {
	_, err = database.One(ctx, d.deps.DB.SQL(ctx), `SELECT delete_webhook_table()`, nil, &is)
	return is, errs.Doing("delete what was dropped", err)
}
