package tracker

import (
	"context"
	"fmt"
	"strings"

	"github.com/supplyhub/supplyhub/internal/database"
)

// ensureView makes the view of a client's records, unless it is there, and writes down what it looks like: when
// another view is put in its place, the counters are not believed for that one.
func (s *store) ensureView(ctx context.Context, client int64) error {
	name := viewName(client)
	definition := `SELECT sql FROM sqlite_master WHERE type = 'view' AND name = ?`
	if s.db.Engine() == database.Postgres {
		definition = `SELECT pg_get_viewdef(to_regclass(?))`
	}
	var there bool
	err := s.db.From(ctx).Raw(`SELECT (`+definition+
		`) IS NOT NULL AND EXISTS (SELECT 1 FROM tracker_views WHERE client_number = ?)`, name, client).Scan(&there).Error
	if err != nil {
		return fmt.Errorf("look for tracker view: %w", err)
	}
	if there {
		return nil
	}
	list := make([]string, 0, len(columns()))
	for _, column := range columns() {
		list = append(list, quote(column))
	}
	create := fmt.Sprintf("CREATE VIEW %s AS SELECT %s FROM tracker_records WHERE client_number = %d", quote(name),
		strings.Join(list, ", "), client)
	if err := s.db.From(ctx).Exec(create).Error; err != nil {
		return fmt.Errorf("create tracker view: %w", err)
	}
	err = s.db.From(ctx).Exec(`INSERT INTO tracker_views (client_number, name, definition) VALUES (?, ?, (`+definition+`))
		ON CONFLICT (client_number) DO UPDATE SET definition = excluded.definition`, client, name, name).Error
	if err != nil {
		return fmt.Errorf("note tracker view: %w", err)
	}
	return nil
}
