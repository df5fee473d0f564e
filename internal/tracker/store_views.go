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
	definition := `SELECT sql FROM sqlite_master WHERE type = 'view' AND name = $1`
	if s.db.Engine() == database.Postgres {
		definition = `SELECT pg_get_viewdef(to_regclass($1))`
	}
	var there bool
	_, err := database.One(ctx, s.db.SQL(ctx), `SELECT (`+definition+`) IS NOT NULL
		AND EXISTS (SELECT 1 FROM tracker_views WHERE client_number = $2)`, []any{name, client}, &there)
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
	if _, err := database.Exec(ctx, s.db.SQL(ctx), create); err != nil {
		return fmt.Errorf("create tracker view: %w", err)
	}
	if err := s.shareView(ctx, name); err != nil {
		return fmt.Errorf("grant tracker view: %w", err)
	}
	_, err = database.Exec(ctx, s.db.SQL(ctx), `INSERT INTO tracker_views (name, client_number, definition)
		VALUES ($1, $2, (`+definition+`))
		ON CONFLICT (client_number) DO UPDATE SET definition = excluded.definition`, name, client)
	if err != nil {
		return fmt.Errorf("note tracker view: %w", err)
	}
	return nil
}

// shareView lets every role read the view that may read the list of views, as the api does that serves them.
func (s *store) shareView(ctx context.Context, name string) error {
	if s.db.Engine() == database.SQLite {
		return nil
	}
	roles, err := database.Column[string](ctx, s.db.SQL(ctx), `SELECT grantee FROM information_schema.role_table_grants
		WHERE table_schema = current_schema() AND table_name = 'tracker_views' AND privilege_type = 'SELECT'
			AND grantee NOT IN ('PUBLIC', current_user)`)
	if err != nil || len(roles) == 0 {
		return err
	}
	for i, role := range roles {
		roles[i] = quote(role)
	}
	_, err = database.Exec(ctx, s.db.SQL(ctx), "GRANT SELECT ON "+quote(name)+" TO "+strings.Join(roles, ", "))
	return err
}
