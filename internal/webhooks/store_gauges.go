package webhooks

import (
	"context"
	"fmt"
	"time"
)

// mostCounted bounds what a gauge reads: it costs the same however much is stored.
const mostCounted = 10_000

// Conditions that imply those of the partial indexes.
const (
	areDead    = `status IN ('dead', 'failed') AND status = 'dead'`
	areFailed  = `status IN ('dead', 'failed') AND status = 'failed'`
	areWaiting = `status = 'pending' AND worker IS NULL`
	areTried   = `worker IS NOT NULL`
)

// countedDeliveries and ownDeliveries end with the bound.
const (
	countedDeliveries = `SELECT count(*) FROM (SELECT 1 FROM webhook_deliveries WHERE %s LIMIT ?) counted`
	ownDeliveries     = `SELECT count(*) AS n, min(created_at) AS since FROM (
		SELECT created_at FROM webhook_deliveries WHERE destination = 'own' AND status = 'pending' AND worker IS NULL ORDER BY next_attempt_at LIMIT ?) pending`
)

// Standing is how many deliveries are not delivered, at most 10,000 of each kind are counted.
type Standing struct {
	Pending, Dead, Failed int64
	Own                   int64     // of the pending ones that are not attempted right now, those to the own endpoint
	OwnSince              time.Time // when the oldest of these was made; zero when there is none
}

// Standing counts by the indexes of just these deliveries.
func (d *Dispatcher) Standing(ctx context.Context) (s Standing, err error) {
	if s.Dead, err = d.store.countUpTo(ctx, areDead); err != nil {
		return s, err
	}
	if s.Failed, err = d.store.countUpTo(ctx, areFailed); err != nil {
		return s, err
	}
	if s.Pending, err = d.store.countUpTo(ctx, areWaiting); err != nil {
		return s, err
	}
	tried, err := d.store.countUpTo(ctx, areTried)
	if s.Pending += tried; err != nil {
		return s, err
	}
	s.Own, s.OwnSince, err = d.store.own(ctx)
	return s, err
}

// countUpTo counts the deliveries of a partial index's condition.
func (s *store) countUpTo(ctx context.Context, condition string) (n int64, err error) {
	err = s.db.Reader(ctx).Raw(fmt.Sprintf(countedDeliveries, condition), mostCounted).Scan(&n).Error
	if err != nil {
		return 0, fmt.Errorf("count deliveries: %w", err)
	}
	return n, nil
}

// own counts what is pending for the own endpoint.
func (s *store) own(ctx context.Context) (n int64, since time.Time, err error) {
	var row struct {
		N     int64
		Since *int64
	}
	err = s.db.Reader(ctx).Raw(ownDeliveries, mostCounted).Scan(&row).Error
	if err != nil {
		return 0, since, fmt.Errorf("count deliveries to the own endpoint: %w", err)
	}
	if row.Since != nil {
		since = time.UnixMicro(*row.Since)
	}
	return row.N, since, nil
}
