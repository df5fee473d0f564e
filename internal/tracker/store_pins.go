package tracker

import (
	"context"
	"fmt"
	"time"
)

// notePin writes a crawl's state and forgets the client's crawls that are over.
func (s *store) notePin(ctx context.Context, key pinKey, p pin, over time.Time) error {
	err := s.db.InTx(ctx, "pin a crawl", func(ctx context.Context) error {
		err := s.db.From(ctx).Exec(`INSERT INTO tracker_pins
				(client_number, listing, filter, page_size, view, generation, max_id, day, pinned_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (client_number, listing, filter, page_size) DO UPDATE SET view = excluded.view,
				generation = excluded.generation, max_id = excluded.max_id, day = excluded.day, pinned_at = excluded.pinned_at`,
			key.client, key.listing, key.filter, key.pageSize, p.view, p.generation, p.maxID, p.day, p.at.UnixMicro()).Error
		if err != nil {
			return err
		}
		return s.db.From(ctx).Exec(`DELETE FROM tracker_pins WHERE client_number = ? AND pinned_at < ?`, key.client,
			over.UnixMicro()).Error
	})
	if err != nil {
		return fmt.Errorf("note the listing's state: %w", err)
	}
	return nil
}
