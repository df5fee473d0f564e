package webhooks

import (
	"context"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
)

// forget deletes the events of the requests, with their deliveries and attempts.
func (s *store) forget(ctx context.Context, requests []round.Round) (events int64, err error) {
	uids := uidsOf(requests)
	ids, err := s.idsOf(ctx, uids...)
	if err != nil {
		return 0, err
	}
	for _, statement := range []string{`DELETE FROM webhook_attempts WHERE ` + s.anyOf("delivery_id", 1),
		`DELETE FROM webhook_deliveries WHERE ` + s.anyOf("id", 1)} {
		if _, err := s.db.SQL(ctx).ExecContext(ctx, statement, s.values(ids)); err != nil {
			return 0, database.Translate(err)
		}
	}
	deleted, err := s.db.SQL(ctx).ExecContext(ctx, `DELETE FROM webhook_events WHERE `+s.anyOf("uid", 1), s.values(uids))
	if err != nil {
		return 0, database.Translate(err)
	}
	return deleted.RowsAffected()
}
