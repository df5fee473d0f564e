package deliveries

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
)

// redeliveries is the lock that redeliveries share (h), and without which no partition is dropped: nothing that has
// ended becomes pending between a drop's look and its end. Retention's own end of deliveries (g) needs no such lock.
const redeliveries = "redeliveries"

// advance reports whether it did something, and there may be more to do. It calls a function of the schema, which runs
// with its owner's rights: the service's role makes and drops no tables.
func (s *store) advance(ctx context.Context, now time.Time, days int) (more bool, err error) {
	err = s.DB.InTx(ctx, "open a partition", func(ctx context.Context) error {
		held, err := s.DB.TryLock(ctx, "partitions")
		if err != nil || !held {
			return err
		}
		_, err = database.One(ctx, s.DB.SQL(ctx), `SELECT advance_webhook_partitions($1, $2)`, []any{now.UnixMicro(), days},
			&more)
		return err
	})
	return more, err
}

// partitions returns those that were opened; made ahead, one has no rows yet.
func (s *store) partitions(ctx context.Context) ([]round.Partition, error) {
	type row struct {
		round.Partition
		openedAt int64
		closedAt *int64
	}
	rows, err := database.Query(ctx, s.DB.ReaderSQL(ctx), `SELECT name, first_uid, end_uid, opened_at, closed_at, kept
		FROM webhook_partitions WHERE opened_at IS NOT NULL ORDER BY first_uid`, nil,
		func(r *row) []any { return []any{&r.Name, &r.First, &r.End, &r.openedAt, &r.closedAt, &r.Kept} })
	if err != nil {
		return nil, fmt.Errorf("read partitions: %w", err)
	}
	list := make([]round.Partition, len(rows))
	for i, r := range rows {
		list[i] = r.Partition
		if r.openedAt > 0 {
			list[i].Opened = time.UnixMicro(r.openedAt)
		}
		if r.closedAt != nil {
			list[i].Closed = time.UnixMicro(*r.closedAt)
		}
	}
	return list, nil
}

// unfinished looks only into the indexes of what is pending: of what waits, and of what a worker has.
func (s *store) unfinished(ctx context.Context, p round.Partition) (is bool, err error) {
	first, end := borders(p)
	_, err = database.One(ctx, s.DB.ReaderSQL(ctx), `SELECT EXISTS (SELECT 1 FROM webhook_deliveries
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

func (s *store) keep(ctx context.Context, p round.Partition, why string) error {
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_partitions SET kept = $1 WHERE name = $2 AND kept <> $1`,
		why, p.Name)
	return errs.Doing("note why partition "+p.Name+" is kept", err)
}

// drop detaches the partition's tables, or returns why it did not. While a redelivery is under way it does not even
// wait: a lock that waits would make later redeliveries wait behind it.
func (s *store) drop(ctx context.Context, p round.Partition) (why string, err error) {
	err = s.DB.InTx(ctx, "drop a partition", func(ctx context.Context) error {
		if held, err := s.DB.TryLock(ctx, redeliveries); err != nil || !held {
			why = "its deliveries are being redelivered"
			return err
		}
		_, err = database.One(ctx, s.DB.SQL(ctx), `SELECT drop_webhook_partition($1)`, []any{p.First}, &why)
		return err
	})
	return why, err
}

// deleteDropped deletes one detached table, the first by name, and reports whether there was one.
func (s *store) deleteDropped(ctx context.Context) (is bool, err error) {
	_, err = database.One(ctx, s.DB.SQL(ctx), `SELECT delete_webhook_table()`, nil, &is)
	return is, errs.Doing("delete what was dropped", err)
}
