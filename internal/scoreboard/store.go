package scoreboard

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// store is the counted requests and the runtime settings.
type store struct{ db *database.DB }

// used returns how much of the day's quota the requester has spent.
func (s *store) used(ctx context.Context, item spend) (used int64, err error) {
	_, err = database.One(ctx, s.db.ReaderSQL(ctx), `SELECT used FROM scoreboard_usage
		WHERE requester = $1 AND day = $2`, []any{item.requester, item.day.Format(time.DateOnly)}, &used)
	return used, errs.Doing("read scoreboard usage", err)
}

// spend counts up to n requests and returns how many were within the limit and how many are counted now.
func (s *store) spend(ctx context.Context, item spend, n, limit int64) (granted, used int64, err error) {
	if limit == 0 {
		return 0, 0, nil
	}
	const grant = `CASE WHEN scoreboard_usage.used + $4 <= $5 THEN $4
		WHEN scoreboard_usage.used < $5 THEN $5 - scoreboard_usage.used ELSE 0 END`
	_, err = database.One(ctx, s.db.SQL(ctx), `INSERT INTO scoreboard_usage (requester, day, used, granted)
		VALUES ($1, $2, $3, $3)
		ON CONFLICT (requester, day) DO UPDATE SET used = scoreboard_usage.used + `+grant+`, granted = `+grant+`
		RETURNING granted, used`, []any{item.requester, item.day.Format(time.DateOnly),
		min(n, limit), n, limit}, &granted, &used)
	return granted, used, errs.Doing("count scoreboard requests", err)
}

// settings returns what is set, by key.
func (s *store) settings(ctx context.Context) (map[string]string, error) {
	stored, err := database.Pairs[string, string](ctx, s.db.ReaderSQL(ctx), `SELECT key, value FROM settings`)
	return stored, errs.Doing("read settings", err)
}

// set stores a setting over the one that was.
func (s *store) set(ctx context.Context, key, value string, now time.Time) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `INSERT INTO settings (key, value, updated_at) VALUES ($1, $2, $3)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
		key, value, now.UnixMicro())
	return errs.Doing("store setting", err)
}

// unset removes a setting: its default counts again.
func (s *store) unset(ctx context.Context, key string) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `DELETE FROM settings WHERE key = $1`, key)
	return errs.Doing("remove setting", err)
}
