package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

// madeBefore returns when all requests of a partition were made, whatever the clocks of those days: a day after it was
// closed at the latest.
func madeBefore(p round.Partition) time.Time { return p.Closed.AddDate(0, 0, 1) }

// Expire is Prune as the service does it by itself. Where events are in partitions, one is dropped, with its requests,
// when all of it is old: it is kept while a delivery is pending or a request was changed of late, and its other requests
// are deleted one by one. So is what was there before partitions were made, until all of that is old. done is
// called with each partition that is dropped, or kept for a reason.
func (s *Service) Expire(ctx context.Context, old Old, done func(p round.Partition, kept string)) (
	sum Pruned, err error) {
	all, err := s.deps.Partitions.Partitions(ctx)
	if err != nil {
		return sum, err
	}
	if len(all) == 0 || all[0].Opened.IsZero() && !isOver(all[0], old.Before) {
		return s.Prune(ctx, old, func(Pruned) {})
	}
	if err := s.deps.Events.End(ctx, old.Before, old.Reason); err != nil {
		return sum, fmt.Errorf("end old deliveries: %w", err)
	}
	for _, p := range all {
		if !isOver(p, old.Before) {
			break
		}
		pruned, kept, err := s.expire(ctx, p, old.Before)
		sum.Requests, sum.Events = sum.Requests+pruned.Requests, sum.Events+pruned.Events
		if err == nil && kept != "" {
			err = s.deps.Partitions.Keep(ctx, p, kept)
		}
		if err != nil {
			return sum, fmt.Errorf("expire partition %s: %w", p.Name, err)
		}
		done(p, kept)
	}
	return sum, nil
}

func isOver(p round.Partition, before time.Time) bool {
	return !p.Closed.IsZero() && p.Closed.Before(before)
}

// expire drops the partition, or returns why it is kept, without those of its requests that are old and over.
func (s *Service) expire(ctx context.Context, p round.Partition, before time.Time) (
	pruned Pruned, kept string, err error) {
	if kept, err = s.whyKept(ctx, p, before); err != nil {
		return pruned, "", err
	}
	made := madeBefore(p)
	if made.After(before) {
		made = before
	}
	pruned, err = s.prune(ctx, pruning{made: made, changed: before, of: p, dropped: kept == ""}, func(Pruned) {})
	if err != nil || kept != "" {
		return pruned, kept, err
	}
	left, err := s.store.holds(ctx, p, time.UnixMicro(0)) // another process deletes them, or they were changed meanwhile
	if err != nil || left {
		return pruned, "requests are left", err
	}
	kept, err = s.deps.Partitions.Drop(ctx, p)
	return pruned, kept, err
}

// whyKept returns why the partition cannot be dropped; empty: it can.
func (s *Service) whyKept(ctx context.Context, p round.Partition, since time.Time) (string, error) {
	unfinished, err := s.deps.Partitions.Unfinished(ctx, p)
	switch {
	case err != nil:
		return "", err
	case unfinished:
		return "deliveries are pending", nil
	}
	held, err := s.store.holds(ctx, p, since)
	if held {
		return "requests are enqueued or were changed of late", err
	}
	return "", err
}
