package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

// border is how much later than its partition was closed a request may have been made, by another process's clock.
const border = time.Minute

func madeBefore(p round.Partition) time.Time { return p.Closed.Add(border) }

// Expire is Prune as the service does it by itself. Where events are in partitions, one is dropped, with its requests,
// when all of it is old: it is kept while a delivery is pending or a request was changed of late. What was there before
// partitions were made is deleted one by one until all of that is old. done is called with each partition that is
// dropped, or kept for a reason.
func (s *Service) Expire(ctx context.Context, before time.Time, done func(p round.Partition, kept string)) (
	sum Pruned, err error) {
	all, err := s.deps.Partitions.Partitions(ctx)
	if err != nil {
		return sum, err
	}
	if len(all) == 0 || all[0].Opened.IsZero() && !old(all[0], before) {
		return s.Prune(ctx, before, func(Pruned) {})
	}
	for _, p := range all {
		if !old(p, before) {
			break
		}
		pruned, kept, err := s.expire(ctx, p, before)
		if err == nil && kept != "" {
			err = s.deps.Partitions.Keep(ctx, p, kept)
		}
		if err != nil {
			return sum, fmt.Errorf("expire partition %s: %w", p.Name, err)
		}
		sum.Requests += pruned.Requests
		done(p, kept)
	}
	return sum, nil
}

func old(p round.Partition, before time.Time) bool {
	return !p.Closed.IsZero() && madeBefore(p).Before(before)
}

// expire drops the partition, or returns why it is kept.
func (s *Service) expire(ctx context.Context, p round.Partition, before time.Time) (
	pruned Pruned, kept string, err error) {
	if kept, err = s.whyKept(ctx, p, before); err != nil || kept != "" {
		return pruned, kept, err
	}
	pruned, err = s.prune(ctx, pruning{made: madeBefore(p), changed: before, of: p, dropped: true}, func(Pruned) {})
	if err != nil {
		return pruned, "", err
	}
	left, err := s.held(ctx, p, time.UnixMicro(0)) // another process deletes them, or they were changed meanwhile
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
	held, err := s.held(ctx, p, since)
	if held {
		return "requests are enqueued or were changed of late", err
	}
	return "", err
}

// held reports whether a request of the partition is enqueued or was changed since then.
func (s *Service) held(ctx context.Context, p round.Partition, since time.Time) (bool, error) {
	suppliers, err := s.store.suppliers(ctx)
	for _, supplier := range suppliers {
		held, err := s.store.holds(ctx, supplier, p, since)
		if err != nil || held {
			return held, err
		}
	}
	return false, err
}
