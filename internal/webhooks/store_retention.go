package webhooks

import (
	"context"

	"github.com/supplyhub/supplyhub/internal/round"
)

// forget deletes the events of the requests, with their deliveries and attempts.
func (s *store) forget(ctx context.Context, latest []round.Round) (events int64, err error) {
	var ids, earlier []string
	uids := make([]int64, len(latest))
	for i, r := range latest {
		ids, uids[i] = append(ids, webhookIDs(r)...), r.UID
	}
	err = s.db.From(ctx).Raw(`SELECT id FROM webhook_deliveries WHERE uid IN ? AND id < 'msg_1'`,
		uids).Scan(&earlier).Error
	if err != nil {
		return 0, err
	}
	ids = append(ids, earlier...)
	if err := s.db.From(ctx).Exec(`DELETE FROM webhook_attempts WHERE delivery_id IN ?`, ids).Error; err != nil {
		return 0, err
	}
	if err := s.db.From(ctx).Exec(`DELETE FROM webhook_deliveries WHERE id IN ?`, ids).Error; err != nil {
		return 0, err
	}
	deleted := s.db.From(ctx).Exec(`DELETE FROM webhook_events WHERE uid IN ?`, uids)
	return deleted.RowsAffected, deleted.Error
}

// webhookIDs returns the ids of all deliveries of a request, given the round that it is in.
func webhookIDs(latest round.Round) []string {
	var ids []string
	for number := int64(1); number <= latest.Number; number++ {
		ids = append(ids, round.WebhookID(latest.UID, number, round.OwnEndpoint),
			round.WebhookID(latest.UID, number, round.Receiver))
	}
	return ids
}

// roundOf returns the numbers of an own delivery; own is false when there is none of that id.
func (s *store) roundOf(ctx context.Context, webhookID string) (uid, number int64, own bool, err error) {
	var found []deliveryRow
	err = s.db.Reader(ctx).Raw(`SELECT uid, round FROM webhook_deliveries WHERE id = ? AND destination = ?`, webhookID,
		OwnEndpoint).Scan(&found).Error
	if err != nil || len(found) == 0 {
		return 0, 0, false, err
	}
	return found[0].UID, found[0].Round, true, nil
}
