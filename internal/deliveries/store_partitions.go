package deliveries

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

// redeliveries is the lock that redeliveries share, and without which no partition is dropped.
const redeliveries = "redeliveries"

// advance reports whether it did something, and there may be more to do.
func (s *store) advance(ctx context.Context, now time.Time, days int) (more bool, err error) {
	err = s.DB.InTx(ctx, "open a partition", func(ctx context.Context) error {
		held, err := s.DB.TryLock(ctx, "partitions")
		if err != nil || !held {
			return err
		}
		return s.DB.From(ctx).Raw(`SELECT advance_webhook_partitions(?, ?)`, now.UnixMicro(), days).Scan(&more).Error
	})
	return more, err
}

func (s *store) partitions(ctx context.Context) ([]round.Partition, error) {
	var rows []struct {
		Name             string
		FirstUID, EndUID int64
		OpenedAt         int64
		ClosedAt         *int64
		Kept             string
	}
	err := s.DB.Reader(ctx).Raw(`SELECT name, first_uid, end_uid, opened_at, closed_at, kept
		FROM webhook_partitions WHERE opened_at IS NOT NULL ORDER BY first_uid`).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read partitions: %w", err)
	}
	list := make([]round.Partition, len(rows))
	for i, r := range rows {
		list[i] = round.Partition{Name: r.Name, First: r.FirstUID, End: r.EndUID, Kept: r.Kept}
		if r.OpenedAt > 0 {
			list[i].Opened = time.UnixMicro(r.OpenedAt)
		}
		if r.ClosedAt != nil {
			list[i].Closed = time.UnixMicro(*r.ClosedAt)
		}
	}
	return list, nil
}

// unfinished looks only into the indexes of what is pending.
func (s *store) unfinished(ctx context.Context, p round.Partition) (is bool, err error) {
	first, end := borders(p)
	err = s.DB.Reader(ctx).Raw(`SELECT EXISTS (SELECT 1 FROM webhook_deliveries
			WHERE status = 'pending' AND worker IS NULL AND id >= ? AND id < ?)
		OR EXISTS (SELECT 1 FROM webhook_deliveries WHERE worker IS NOT NULL AND id >= ? AND id < ?)`,
		first, end, first, end).Scan(&is).Error
	if err != nil {
		return false, fmt.Errorf("look for pending deliveries of partition %s: %w", p.Name, err)
	}
	return is, nil
}

// borders returns what the webhook-ids of the partition are between.
func borders(p round.Partition) (first, end string) {
	if p.First > 0 {
		first = round.Border(p.First)
	}
	return first, round.Border(p.End)
}

func (s *store) keep(ctx context.Context, p round.Partition, why string) error {
	err := s.DB.From(ctx).Exec(`UPDATE webhook_partitions SET kept = ? WHERE name = ? AND kept <> ?`, why, p.Name,
		why).Error
	if err != nil {
		return fmt.Errorf("note why partition %s is kept: %w", p.Name, err)
	}
	return nil
}

func (s *store) drop(ctx context.Context, p round.Partition) (why string, err error) {
	err = s.DB.InTx(ctx, "drop a partition", func(ctx context.Context) error {
		if held, err := s.DB.TryLock(ctx, redeliveries); err != nil || !held {
			why = "its deliveries are being redelivered"
			return err
		}
		return s.DB.From(ctx).Raw(`SELECT drop_webhook_partition(?)`, p.First).Scan(&why).Error
	})
	return why, err
}

func (s *store) deleteDropped(ctx context.Context) (is bool, err error) {
	if err = s.DB.From(ctx).Raw(`SELECT delete_webhook_table()`).Scan(&is).Error; err != nil {
		return false, fmt.Errorf("delete what was dropped: %w", err)
	}
	return is, nil
}
