package webhooks

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
)

// verifiedRow is a delivery and what Verify asks of it.
type verifiedRow struct {
	id     string
	status Status
	faults [noOwnFault]bool
}

func (r *verifiedRow) places() []any {
	return []any{&r.id, &r.status, &r.faults[0], &r.faults[1], &r.faults[2]}
}

// verified checks the next deliveries behind an id, each in one statement, so that no writer comes in between.
func (s *store) verified(ctx context.Context, after string, limit int) ([]verifiedRow, error) {
	return database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT id, status, events = 0,
			status = 'delivered' AND (last_status IS NULL OR last_status NOT BETWEEN 200 AND 299),
			attempts > 0 AND (earlier <> attempts - 1 OR last_started_at IS NULL)
				OR attempts = 0 AND (earlier > 0 OR last_started_at IS NOT NULL)
		FROM (SELECT d.id, d.status, d.attempts, d.last_status, d.last_started_at,
				(SELECT count(*) FROM webhook_events e WHERE e.uid = d.uid AND e.round = d.round`+
		s.db.OnOneServer(`e.supplier_id = d.supplier_id`)+`) AS events,
				(SELECT count(*) FROM webhook_attempts a WHERE a.delivery_id = d.id`+
		s.db.OnOneServer(`a.supplier_id = d.supplier_id`)+`) AS earlier
			FROM webhook_deliveries d WHERE d.id > $1 ORDER BY d.id LIMIT $2) AS batch ORDER BY id`,
		[]any{after, limit}, (*verifiedRow).places)
}

// withoutOwn returns the next events behind one, and those of them that have no delivery to the own endpoint: its id
// follows from the event's key.
func (s *store) withoutOwn(ctx context.Context, after round.Round, limit int) (events, lost []round.Round, err error) {
	events, err = database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT uid, round FROM webhook_events
		WHERE (uid, round) > ($1, $2) ORDER BY uid, round LIMIT $3`, []any{after.UID, after.Number, limit},
		func(r *round.Round) []any { return []any{&r.UID, &r.Number} })
	if err != nil {
		return nil, nil, err
	}
	ids := make([]string, len(events))
	for i, r := range events {
		ids[i] = r.WebhookID(round.OwnEndpoint)
	}
	known, err := s.known(ctx, ids)
	for i, r := range events {
		if err != nil {
			break
		}
		if known[ids[i]] {
			continue
		}
		var lacks bool
		if lacks, err = s.lacksOwn(ctx, r); lacks {
			lost = append(lost, r)
		}
	}
	return events, lost, err
}

// lacksOwn reports whether the event is still there, and has no own delivery, whenever that was made.
func (s *store) lacksOwn(ctx context.Context, r round.Round) (lacks bool, err error) {
	err = s.db.Reader(ctx).Raw(`SELECT EXISTS (SELECT 1 FROM webhook_events WHERE uid = ? AND round = ?)
		AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE id = ?)
		AND NOT EXISTS (SELECT 1 FROM webhook_deliveries
			WHERE uid = ? AND id < 'msg_1' AND round = ? AND destination = 'own')`,
		r.UID, r.Number, r.WebhookID(round.OwnEndpoint), r.UID, r.Number).Scan(&lacks).Error
	return lacks, err
}

func (s *store) underway(ctx context.Context, rounds []round.Round) (map[round.Round]bool, error) {
	uids := make([]int64, len(rounds))
	ids := make([]string, len(rounds))
	for i, r := range rounds {
		uids[i], ids[i] = r.UID, r.WebhookID(round.OwnEndpoint)
	}
	found, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT `+listedColumns+` FROM webhook_deliveries
		WHERE destination = 'own' AND status = 'pending'
			AND (`+s.anyOf("id", 1)+` OR id < 'msg_1' AND `+s.anyOf("uid", 2)+`)`,
		[]any{s.values(ids), s.values(uids)}, (*deliveryRow).listed)
	if err != nil {
		return nil, fmt.Errorf("read deliveries under way: %w", err)
	}
	alive := make(map[round.Round]bool, len(found))
	for _, row := range found {
		alive[row.delivery().roundOf()] = true
	}
	return alive, nil
}
