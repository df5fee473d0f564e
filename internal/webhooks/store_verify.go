package webhooks

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
)

// mostFaults is how many faults of one kind are named.
const mostFaults = 1000

// What Verify finds.
const (
	noEvent       = "delivery %s has no event"
	noOwn         = "event %s has no delivery to the own endpoint"
	notAnswered   = "delivery %s is delivered and its last attempt was not answered 2xx"
	lacksAttempts = "delivery %s lacks attempts"
)

func note(faults map[string][]string, fault, id string) {
	if len(faults[fault]) < mostFaults {
		faults[fault] = append(faults[fault], id)
	}
}

// verifyDeliveries goes by the ids. What is wrong with a row is seen in one statement, so that no writer comes in between.
func (s *store) verifyDeliveries(ctx context.Context, ledger *Ledger, faults map[string][]string, seen func(int)) error {
	for after := ""; ; {
		var batch []struct {
			Status Status
			N      int64
			Last   string
		}
		err := s.db.Reader(ctx).Raw(`SELECT status, count(*) AS n, max(id) AS last
			FROM (SELECT id, status FROM webhook_deliveries WHERE id > ? ORDER BY id LIMIT ?) AS batch GROUP BY status`, after, verifyBatch).Scan(&batch).Error
		if err != nil || len(batch) == 0 {
			return err
		}
		from, rows := after, int64(0)
		for _, b := range batch {
			ledger.Deliveries[b.Status] += b.N
			rows, after = rows+b.N, max(after, b.Last)
		}
		if err := s.verifyRange(ctx, from, after, faults); err != nil {
			return err
		}
		seen(int(rows))
	}
}

// verifyRange looks at the deliveries behind from up to the last one.
func (s *store) verifyRange(ctx context.Context, from, last string, faults map[string][]string) error {
	var found []struct {
		ID                                  string
		NoEvent, NotAnswered, LacksAttempts bool
	}
	err := s.db.Reader(ctx).Raw(`SELECT * FROM (
			SELECT id, events = 0 AS no_event, status = 'delivered' AND (last_status IS NULL OR last_status NOT BETWEEN 200 AND 299) AS not_answered,
				attempts > 0 AND (earlier <> attempts - 1 OR last_started_at IS NULL) OR attempts = 0 AND (earlier > 0 OR last_started_at IS NOT NULL) AS lacks_attempts
			FROM (SELECT d.*, (SELECT count(*) FROM webhook_events e WHERE e.uid = d.uid AND e.round = d.round) AS events,
					(SELECT count(*) FROM webhook_attempts a WHERE a.delivery_id = d.id) AS earlier
				FROM webhook_deliveries d WHERE d.id > ? AND d.id <= ?) AS looked_up) AS checked
		WHERE no_event OR not_answered OR lacks_attempts`, from, last).Scan(&found).Error
	for _, row := range found {
		for fault, is := range map[string]bool{noEvent: row.NoEvent, notAnswered: row.NotAnswered, lacksAttempts: row.LacksAttempts} {
			if is {
				note(faults, fault, row.ID)
			}
		}
	}
	return err
}

// verifyEvents goes by the events' keys, from which the ids of their own deliveries follow.
func (s *store) verifyEvents(ctx context.Context, _ *Ledger, faults map[string][]string, seen func(int)) error {
	for after := (round.Round{UID: -1}); ; {
		var events []deliveryRow
		err := s.db.Reader(ctx).Raw(`SELECT uid, round FROM webhook_events WHERE (uid, round) > (?, ?) ORDER BY uid, round LIMIT ?`,
			after.UID, after.Number, verifyBatch).Scan(&events).Error
		if err != nil || len(events) == 0 {
			return err
		}
		ids := make([]string, len(events))
		for i, e := range events {
			ids[i] = round.WebhookID(e.UID, e.Round, round.Own)
		}
		there, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT id FROM webhook_deliveries WHERE `+s.anyOf("id", 1), []any{s.values(ids)},
			func(id *string) []any { return []any{id} })
		if err != nil {
			return err
		}
		known := setOf(there)
		for i, e := range events {
			if known[ids[i]] {
				continue
			}
			if lost, err := s.lacksOwn(ctx, e); err != nil {
				return err
			} else if lost {
				note(faults, noOwn, fmt.Sprintf("%d/%d", e.UID, e.Round))
			}
		}
		last := events[len(events)-1]
		after = round.Round{UID: last.UID, Number: last.Round}
		seen(len(events))
	}
}

// lacksOwn reports whether the event is still there, and has no own delivery, whenever that was made.
func (s *store) lacksOwn(ctx context.Context, e deliveryRow) (lost bool, err error) {
	err = s.db.Reader(ctx).Raw(`SELECT EXISTS (SELECT 1 FROM webhook_events WHERE uid = ? AND round = ?)
		AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE id = ?)
		AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE uid = ? AND id < 'msg_1' AND round = ? AND destination = 'own')`,
		e.UID, e.Round, round.WebhookID(e.UID, e.Round, round.Own), e.UID, e.Round).Scan(&lost).Error
	return lost, err
}

func (s *store) underway(ctx context.Context, rounds []round.Round) (map[round.Round]bool, error) {
	uids := make([]int64, len(rounds))
	ids := make([]string, len(rounds))
	for i, r := range rounds {
		uids[i], ids[i] = r.UID, r.WebhookID(round.Own)
	}
	var found []deliveryRow
	err := s.db.Reader(ctx).Where("destination = ? AND status = 'pending'", Own).
		Where(s.db.Reader(ctx).Where("id IN ?", ids).Or("uid IN ? AND id < 'msg_1'", uids)).Find(&found).Error
	if err != nil {
		return nil, fmt.Errorf("read deliveries under way: %w", err)
	}
	alive := make(map[round.Round]bool, len(found))
	for _, row := range found {
		alive[row.delivery().roundOf()] = true
	}
	return alive, nil
}
