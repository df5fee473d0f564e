package scoreboard

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// store is the counted requests and the runtime settings.
type store struct{ db *database.DB }

// used returns how much of the day's quota the requester has spent.
func (s *store) used(ctx context.Context, requester, day string) (used int64, err error) {
	err = s.db.Reader(ctx).Raw(`SELECT coalesce(max(used), 0) FROM scoreboard_usage WHERE requester = ? AND day = ?`,
		requester, day).Scan(&used).Error
	if err != nil {
		return 0, fmt.Errorf("read scoreboard usage: %w", err)
	}
	return used, nil
}

// spend counts up to n requests and returns how many were within the limit and how many are counted now.
func (s *store) spend(ctx context.Context, item spend, n, limit int64) (granted, used int64, err error) {
	if limit == 0 {
		return 0, 0, nil
	}
	least, greatest := "LEAST", "GREATEST"
	if s.db.Engine() == database.SQLite {
		least, greatest = "min", "max"
	}
	grant := least + `(?, ` + greatest + `(? - scoreboard_usage.used, 0))`
	var row struct{ Granted, Used int64 }
	err = s.db.From(ctx).Raw(`INSERT INTO scoreboard_usage (requester, day, used, granted) VALUES (?, ?, ?, ?)
		ON CONFLICT (requester, day) DO UPDATE SET used = scoreboard_usage.used + `+grant+`, granted = `+grant+`
		RETURNING granted, used`,
		item.requester, item.day, min(n, limit), min(n, limit), n, limit, n, limit).Scan(&row).Error
	if err != nil {
		return 0, 0, fmt.Errorf("count scoreboard requests: %w", err)
	}
	return row.Granted, row.Used, nil
}

func (s *store) settings(ctx context.Context) (map[string]string, error) {
	var rows []struct{ Key, Value string }
	if err := s.db.Reader(ctx).Raw(`SELECT key, value FROM settings`).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	stored := make(map[string]string, len(rows))
	for _, row := range rows {
		stored[row.Key] = row.Value
	}
	return stored, nil
}

func (s *store) set(ctx context.Context, key, value string, now time.Time) error {
	err := s.db.From(ctx).Exec(`INSERT INTO settings (key, value, updated_at) VALUES (?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
		key, value, now.UnixMicro()).Error
	if err != nil {
		return fmt.Errorf("store setting: %w", err)
	}
	return nil
}

func (s *store) unset(ctx context.Context, key string) error {
	if err := s.db.From(ctx).Exec(`DELETE FROM settings WHERE key = ?`, key).Error; err != nil {
		return fmt.Errorf("remove setting: %w", err)
	}
	return nil
}
