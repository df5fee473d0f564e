package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// ownLooked bounds the look for the oldest delivery to the own endpoint: they are in the order in which they are due.
const ownLooked = 10_000

const ownSince = `SELECT min(created_at) AS since FROM (
	SELECT created_at FROM (SELECT created_at FROM webhook_deliveries
		WHERE destination = 'own' AND status = 'pending' AND worker IS NULL ORDER BY next_attempt_at LIMIT ?) waiting
	UNION ALL SELECT created_at FROM webhook_deliveries WHERE worker IS NOT NULL AND destination = 'own') pending`

// illReceivers repeats the condition of the index of just these. A deactivated supplier, or one without an address, has
// no receiver.
const illReceivers = `SELECT coalesce(sum(CASE WHEN r.paused_by = '' THEN 1 ELSE 0 END), 0) AS failing,
		coalesce(sum(CASE WHEN r.paused_by = '' THEN 0 ELSE 1 END), 0) AS paused
	FROM webhook_receivers r JOIN suppliers s ON s.id = r.supplier_id
	WHERE (r.failing_since IS NOT NULL OR r.paused_by <> '') AND s.active AND s.webhook_url <> ''`

// OwnSince returns when the oldest of the deliveries was made that are pending to the own endpoint; the zero time when
// none is. One that a worker holds counts too: it may have been forgotten.
func (d *Dispatcher) OwnSince(ctx context.Context) (time.Time, error) {
	var micros *int64
	if err := d.store.db.Reader(ctx).Raw(ownSince, ownLooked).Scan(&micros).Error; err != nil {
		return time.Time{}, fmt.Errorf("look for the oldest delivery to the own endpoint: %w", database.Translate(err))
	}
	if micros == nil {
		return time.Time{}, nil
	}
	return time.UnixMicro(*micros), nil
}

// Ill is how many receivers an operator has to look at.
type Ill struct{ Failing, Paused int64 }

// IllReceivers counts them by an index that has no others. One that is paused does not count as failing.
func (d *Dispatcher) IllReceivers(ctx context.Context) (ill Ill, err error) {
	if err := d.store.db.Reader(ctx).Raw(illReceivers).Scan(&ill).Error; err != nil {
		return ill, fmt.Errorf("count ill receivers: %w", database.Translate(err))
	}
	return ill, nil
}
