package deliveries

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
)

// pendingSince returns the expression of when a pending delivery d became so: when it was made, or when a redelivery
// began its series of attempts. The series' first attempt shows when that was. A delivery that was ended before any
// attempt and then redelivered has series 0 too.
func (s *store) pendingSince() string {
	return `CASE WHEN series > 1 AND series < attempts THEN coalesce((SELECT a.started_at FROM webhook_attempts a
			WHERE a.delivery_id = d.id AND a.supplier_id = d.supplier_id AND a.number = d.attempts - d.series + 1), created_at)
		ELSE ` + aboutSince + ` END`
}

// aboutSince is pendingSince from the row alone. Of a redelivery with several attempts it is the delivery's own time.
// Package figures counts by the same.
const aboutSince = `CASE WHEN series = 0 THEN updated_at WHEN series = 1 AND attempts > 1 THEN last_started_at
	ELSE created_at END`

// waitedFor returns the suppliers for whose receivers something waits. It takes one step through the index for each
// supplier, so its cost does not depend on how much waits. It leaves deliveries that a worker holds right now to the
// next run.
func (s *store) waitedFor(ctx context.Context) ([]string, error) {
	query := `WITH RECURSIVE waited(id) AS (
			SELECT (SELECT destination FROM webhook_deliveries WHERE status = 'pending' AND worker IS NULL
				ORDER BY destination LIMIT 1)
			UNION ALL
			SELECT (SELECT d.destination FROM webhook_deliveries d WHERE d.status = 'pending' AND d.worker IS NULL
				AND d.destination > waited.id ORDER BY d.destination LIMIT 1)
			FROM waited WHERE waited.id IS NOT NULL)
		SELECT id FROM waited WHERE id <> 'own'`
	if s.DB.Spread() {
		query = waitedForSpread
	}
	list, err := database.Column[string](ctx, s.DB.ReaderSQL(ctx), query)
	return list, errs.Doing("look for whom deliveries wait", err)
}

// waitedSince returns which of the deliveries, if they are pending, have been so since before the given time. It is
// asked of locked rows alone, within the transaction that ends them.
func (s *store) waitedSince(ctx context.Context, ids []string, before time.Time) (map[string]bool, error) {
	old, err := database.Column[string](ctx, s.DB.SQL(ctx), `SELECT id FROM webhook_deliveries d
		WHERE `+s.DB.AnyOf("id", 1)+` AND `+s.pendingSince()+` < $2`,
		s.DB.Values(ids), before.UnixMicro())
	return database.Set(old), errs.Doing("look how long deliveries have waited", err)
}

// end makes locked deliveries dead (g). It touches no series: a redelivery begins a new one. The last attempt keeps its
// status and error, so that an operator sees what was wrong with the receiver.
func (s *store) end(ctx context.Context, ids []string, reason string, now time.Time) error {
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_deliveries SET status = 'dead', updated_at = $1,
		ended_because = $2 WHERE `+s.DB.AnyOf("id", 3), now.UnixMicro(), reason, s.DB.Values(ids))
	return errs.Doing("end old webhook deliveries", err)
}

// ofRequests returns the deliveries of the requests' rounds up to a number: the uids of their requests by their ids.
func (s *store) ofRequests(ctx context.Context, requests []round.Round, upTo int64) (map[string]int64, error) {
	events, err := s.storedEvents(ctx, `webhook_events WHERE round <= $2 AND `+s.DB.AnyOf("uid", 1),
		s.DB.Values(uidsOf(requests)), upTo)
	if err != nil {
		return nil, err
	}
	found, err := database.Pairs[string, int64](ctx, s.DB.SQL(ctx), `SELECT id, uid FROM webhook_deliveries
		WHERE `+s.DB.AnyOf("id", 1), s.DB.Values(idsOfEvents(events)))
	return found, errs.Doing("read the webhook deliveries of requests", err)
}

// forget deletes the events of the requests' rounds up to a number, with their deliveries and attempts. There are no
// foreign keys, so all three tables are named here; no other transaction sees it half done.
func (s *store) forget(ctx context.Context, requests []round.Round, upTo int64) (events int64, err error) {
	found, err := s.ofRequests(ctx, requests, upTo)
	if err != nil {
		return 0, err
	}
	ids := s.DB.Values(slices.Collect(maps.Keys(found)))
	for _, rows := range []struct {
		of, key string
		args    []any
	}{{"webhook_attempts WHERE ", "delivery_id", []any{ids}}, {"webhook_deliveries WHERE ", "id", []any{ids}},
		{"webhook_events WHERE round <= $2 AND ", "uid", []any{s.DB.Values(uidsOf(requests)), upTo}}} {
		statement := `DELETE FROM ` + rows.of + s.DB.AnyOf(rows.key, 1)
		if events, err = database.Exec(ctx, s.DB.SQL(ctx), statement, rows.args...); err != nil {
			return 0, err
		}
	}
	return events, nil
}
