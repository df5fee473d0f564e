package deliveries

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/round"
)

// The reading half of Verify. It changes and locks nothing and runs while the service works. So one statement finds a
// fault whole, or it looks once more: a row that is changing must not look like a lost one.

// verifiedRow is a delivery and what Verify asks of it.
type verifiedRow struct {
	id     string
	status Status
	faults [noOwnFault]bool
}

func (r *verifiedRow) places() []any {
	return []any{&r.id, &r.status, &r.faults[0], &r.faults[1], &r.faults[2], &r.faults[3]}
}

// verified checks the next deliveries behind an id, each in one statement, so that no writer comes in between.
func (s *store) verified(ctx context.Context, after string, limit int, stuck time.Time) ([]verifiedRow, error) {
	return database.Query(ctx, s.DB.ReaderSQL(ctx), `SELECT id, status, events = 0,
			status = 'delivered' AND (last_status IS NULL OR last_status NOT BETWEEN 200 AND 299),
			attempts > 0 AND (earlier <> attempts - 1 OR last_started_at IS NULL)
				OR attempts = 0 AND (earlier > 0 OR last_started_at IS NOT NULL),
			worker IS NOT NULL AND coalesce(last_started_at, 0) < $3
		FROM (SELECT d.id, d.status, d.attempts, d.last_status, d.last_started_at, d.worker,
				(SELECT count(*) FROM webhook_events e WHERE e.uid = d.uid AND e.round = d.round
					AND e.supplier_id = d.supplier_id) AS events,
				(SELECT count(*) FROM webhook_attempts a WHERE a.delivery_id = d.id
					AND a.supplier_id = d.supplier_id) AS earlier
			FROM webhook_deliveries d WHERE d.id > $1 ORDER BY d.id LIMIT $2) AS batch ORDER BY id`,
		[]any{after, limit, stuck.UnixMicro()}, (*verifiedRow).places)
}

// withoutOwn returns the next events behind one, and those of them that have no delivery to the own endpoint. An event
// is committed with its deliveries, but retention may delete them between two statements: a missing one is looked for
// again.
func (s *store) withoutOwn(ctx context.Context, after round.Round, limit int) (events, lost []round.Round, err error) {
	stored, err := s.storedEvents(ctx, `webhook_events WHERE (uid, round) > ($1, $2) ORDER BY uid, round LIMIT $3`,
		after.UID, after.Number, limit)
	if err != nil {
		return nil, nil, err
	}
	known, err := s.ownOf(ctx, stored, ``)
	for _, e := range stored {
		events = append(events, e.round())
		if err != nil || known[e.round()] {
			continue
		}
		var lacks bool
		if lacks, err = s.lacksOwn(ctx, e); lacks {
			lost = append(lost, e.round())
		}
	}
	return events, lost, err
}

// round returns the numbers of the event's round.
func (e storedEvent) round() round.Round { return round.Round{UID: e.UID, Number: e.number} }

// ownOf returns the rounds of those events that have a delivery to the own endpoint for which the condition holds.
func (s *store) ownOf(ctx context.Context, events []storedEvent, condition string) (map[round.Round]bool, error) {
	ids := lists.Of(events, func(e storedEvent) string { return e.WebhookID(round.OwnEndpoint) })
	found, err := database.Query(ctx, s.DB.ReaderSQL(ctx), `SELECT uid, round FROM webhook_deliveries
		WHERE `+s.DB.AnyOf("id", 1)+condition, []any{s.DB.Values(ids)},
		func(r *round.Round) []any { return []any{&r.UID, &r.Number} })
	return database.Set(found), err
}

// lacksOwn reports whether the event is still there, and has no own delivery, whenever that was made.
func (s *store) lacksOwn(ctx context.Context, e storedEvent) (lacks bool, err error) {
	_, err = database.One(ctx, s.DB.ReaderSQL(ctx), `SELECT EXISTS (SELECT 1 FROM webhook_events WHERE uid = $1
		AND round = $2)
		AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE id = $3)`,
		[]any{e.UID, e.number, e.WebhookID(round.OwnEndpoint)}, &lacks)
	return lacks, err
}

// Underway returns which of the rounds have a delivery to the own endpoint that is still tried: waiting, or begun.
func (d *Keeper) Underway(ctx context.Context, rounds []round.Round) (map[round.Round]bool, error) {
	events, err := d.store.eventsOf(ctx, rounds)
	if err != nil {
		return nil, fmt.Errorf("read events under way: %w", err)
	}
	pending, err := d.store.ownOf(ctx, events, ` AND status = 'pending'`)
	return database.Set(among(rounds, pending)), errs.Doing("read deliveries under way", err)
}
