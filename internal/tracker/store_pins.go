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
		n, err := database.Exec(ctx, s.db.SQL(ctx), `INSERT INTO tracker_pins AS p
				(client_number, listing, filter, page_size, view, generation, max_id, day, pinned_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (client_number, listing, filter, page_size) DO UPDATE SET view = excluded.view,
				generation = excluded.generation, max_id = excluded.max_id, day = excluded.day, pinned_at = excluded.pinned_at
			WHERE $10 OR p.pinned_at < $11 OR p.view <> excluded.view OR p.generation < excluded.generation
				OR p.generation = excluded.generation AND p.max_id <= excluded.max_id`,
			key.client, key.listing, key.filter, key.pageSize, p.view, p.generation, p.maxID, p.day, now.UnixMicro(),
			first, over)
		if err != nil {
			return err
		}
		written = n > 0
		_, err = database.Exec(ctx, s.db.SQL(ctx), `DELETE FROM tracker_pins WHERE client_number = $1 AND pinned_at < $2`,
			key.client, over)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("note the listing's state: %w", err)
	}
	return written, nil
}

// pin returns the state that was noted for the crawl since the given time.
func (s *store) pin(ctx context.Context, key pinKey, view string, since time.Time) (st state, found bool, err error) {
	found, err = database.One(ctx, s.db.SQL(ctx), `SELECT generation, max_id, day FROM tracker_pins
		WHERE client_number = $1 AND listing = $2 AND filter = $3 AND page_size = $4 AND view = $5 AND pinned_at > $6`,
		[]any{key.client, key.listing, key.filter, key.pageSize, view, since.UnixMicro()}, &st.generation, &st.maxID, &st.day)
	return st, found, err
}
