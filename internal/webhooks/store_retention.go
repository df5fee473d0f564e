package webhooks

import (
	"context"

	"github.com/supplyhub/supplyhub/internal/database"
)

// prune deletes a batch of finished events whose deliveries have ids between after and before; last is the id to go on
// from, empty when there are no more.
func (s *store) prune(ctx context.Context, after, before string, limit int) (deleted int64, last string, err error) {
	var own []string
	err = s.db.From(ctx).Raw(`SELECT id FROM webhook_deliveries
		WHERE id > ? AND id < ? AND destination = ? AND status <> 'pending' ORDER BY id LIMIT ?`, after, before, Own, limit).Scan(&own).Error
	if err != nil || len(own) == 0 {
		return 0, "", database.Translate(err)
	}
	if len(own) == limit {
		last = own[len(own)-1]
	}
	var all []string
	for _, first := range own {
		all = append(all, idsFrom(first)...)
	}
	var deliveries []deliveryRow // locked against a redelivery, in its order
	if err := s.locked(ctx).Where("id IN ?", all).Find(&deliveries).Error; err != nil {
		return 0, "", database.Translate(err)
	}
	ids, events := finishedOf(deliveries)
	for _, deletion := range []struct {
		statement string
		of        []string
	}{
		{`DELETE FROM webhook_attempts WHERE delivery_id IN ?`, ids},
		{`DELETE FROM webhook_deliveries WHERE id IN ?`, ids},
		{`DELETE FROM webhook_events WHERE key IN ?`, events},
	} {
		if len(deletion.of) == 0 {
			continue
		}
		if err := s.db.From(ctx).Exec(deletion.statement, deletion.of).Error; err != nil {
			return 0, "", database.Translate(err)
		}
	}
	return int64(len(events)), last, nil
}

// finishedOf are the deliveries and the events of which nothing is still tried.
func finishedOf(deliveries []deliveryRow) (ids, events []string) {
	tried := map[string]bool{}
	for _, d := range deliveries {
		tried[d.EventKey] = tried[d.EventKey] || d.Status == Pending
	}
	for _, d := range deliveries {
		if !tried[d.EventKey] {
			ids = append(ids, d.ID)
		}
	}
	for key, pending := range tried {
		if !pending {
			events = append(events, key)
		}
	}
	return ids, events
}
