package acceptance

import (
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// viewOf makes a view of these rows next to the service's own tables, and lets the api read it.
func viewOf(t *testing.T, h *apptest.Hub, name string, rows ...map[string]string) string {
	t.Helper()
	db := openDatabase(t, h)
	selects := []string{}
	for _, row := range rows {
		columns := []string{}
		for _, column := range append([]string{"id", "dt_carga"}, strings.Fields(recordFields)...) {
			value := map[string]string{"id": "1", "imei": "1", "dt_carga": "'2026-11-20'",
				"data_de_ping": "'2026-11-19'"}[column]
			if given := row[column]; given != "" {
				value = given
			}
			if value == "" {
				value = "NULL"
			}
			columns = append(columns, value+" AS "+column)
		}
		selects = append(selects, "SELECT "+strings.Join(columns, ", "))
	}
	statements := []string{"CREATE VIEW " + name + " AS " + strings.Join(selects, " UNION ALL ")}
	if h.Stack == apptest.Production {
		statements = append(statements, "DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'supplyhub_api') THEN "+
			"GRANT SELECT ON "+name+" TO supplyhub_api; END IF; END $$")
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return name
}
