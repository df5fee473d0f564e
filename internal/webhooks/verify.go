package webhooks

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/round"
)

// Ledger is what Verify found: how many deliveries are in each status, and every one that is not accounted for.
type Ledger struct {
	Deliveries map[Status]int64 `json:"deliveries"`
	Faults     []string         `json:"faults"` // never nil
}

// Verify goes through all deliveries: each has its event and each event its delivery to the own endpoint, what is
// delivered was answered 2xx, and no attempt is missing.
func (d *Dispatcher) Verify(ctx context.Context) (Ledger, error) {
	ledger := Ledger{Deliveries: map[Status]int64{}, Faults: []string{}}
	for _, status := range []Status{Pending, Delivered, Dead, Failed} {
		n, err := d.store.count(ctx, status)
		if err != nil {
			return Ledger{}, err
		}
		ledger.Deliveries[status] = n
	}
	for _, check := range []struct{ statement, fault string }{
		{`SELECT id FROM webhook_deliveries d WHERE NOT EXISTS (SELECT 1 FROM webhook_events e WHERE e.uid = d.uid AND e.round = d.round)`, "delivery %s has no event"},
		{`SELECT CAST(uid AS text) || '/' || round FROM (
			SELECT uid, round, 1 AS event, 0 AS own FROM webhook_events UNION ALL
			SELECT uid, round, 0, 1 FROM webhook_deliveries WHERE destination = 'own') AS pairs GROUP BY uid, round HAVING sum(event) = 1 AND sum(own) <> 1`, "event %s has no delivery to the own endpoint"},
		{`SELECT id FROM webhook_deliveries WHERE status = 'delivered' AND (last_status IS NULL OR last_status NOT BETWEEN 200 AND 299)`, "delivery %s is delivered and its last attempt was not answered 2xx"},
		{`SELECT id FROM (SELECT id, attempts, last_started_at, (SELECT count(*) FROM webhook_attempts a WHERE a.delivery_id = d.id) AS earlier FROM webhook_deliveries d) d
			WHERE attempts > 0 AND (earlier <> attempts - 1 OR last_started_at IS NULL) OR attempts = 0 AND (earlier > 0 OR last_started_at IS NOT NULL)`, "delivery %s lacks attempts"},
	} {
		found, err := d.store.verify(ctx, check.statement)
		if err != nil {
			return Ledger{}, err
		}
		for _, id := range found {
			ledger.Faults = append(ledger.Faults, fmt.Sprintf(check.fault, id))
		}
	}
	return ledger, nil
}

// Underway returns those of the rounds that have a delivery to the own endpoint that is still tried.
func (d *Dispatcher) Underway(ctx context.Context, rounds []round.Round) (map[round.Round]bool, error) {
	return d.store.underway(ctx, rounds)
}
