package tracker

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// notePin writes a crawl's state, and forgets the client's crawls that are over. A later page writes only over what is
// not newer: the client may have begun another crawl of the same meanwhile.
func (s *store) notePin(ctx context.Context, key pinKey, p pin, first bool, now time.Time) (written bool, err error) {
	err = s.db.InTx(ctx, "pin a crawl", func(ctx context.Context) error {
		over := now.Add(-pinLife).UnixMicro()
		noted := s.db.From(ctx).Exec(`INSERT INTO tracker_pins AS p
				(client_number, listing, filter, page_size, view, generation, max_id, day, pinned_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (client_number, listing, filter, page_size) DO UPDATE SET view = excluded.view,
				generation = excluded.generation, max_id = excluded.max_id, day = excluded.day, pinned_at = excluded.pinned_at
			WHERE ? OR p.pinned_at < ? OR p.view <> excluded.view OR p.generation < excluded.generation
				OR p.generation = excluded.generation AND p.max_id <= excluded.max_id`,
			key.client, key.listing, key.filter, key.pageSize, p.view, p.generation, p.maxID, p.day, now.UnixMicro(),
			first, over)
		if noted.Error != nil {
			return noted.Error
		}
		written = noted.RowsAffected > 0
		return s.db.From(ctx).Exec(`DELETE FROM tracker_pins WHERE client_number = ? AND pinned_at < ?`, key.client,
			over).Error
	})
	if err != nil {
		return false, fmt.Errorf("note the listing's state: %w", err)
	}
	return written, nil
}

// pin returns the state that was noted for the crawl since the given time.
func (s *store) pin(ctx context.Context, key pinKey, view string, since time.Time) (st state, found bool, err error) {
	var rows []struct {
		Generation, MaxID int64
		Day               string
	}
	err = s.db.From(ctx).Raw(`SELECT generation, max_id, day FROM tracker_pins WHERE client_number = ? AND listing = ?
		AND filter = ? AND page_size = ? AND view = ? AND pinned_at > ?`, key.client, key.listing, key.filter, key.pageSize,
		view, since.UnixMicro()).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return state{}, false, database.Translate(err)
	}
	return state{generation: rows[0].Generation, maxID: rows[0].MaxID, day: rows[0].Day}, true, nil
}
