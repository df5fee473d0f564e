package acceptance

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// TestCommands_count_from_the_databases_clock runs on a database whose clock is an hour back, as all machines' are
// ahead of it.
func TestCommands_count_from_the_databases_clock(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production,
		apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{"DATABASE_URL": hourBack(t)}})
	s := h.Supplier(t)
	id := submit(t, s, nil)
	if made, err := time.Parse(time.RFC3339, becomes(t, s, id, "estimated").CreatedAt); err != nil ||
		time.Since(made) < time.Hour {
		t.Fatalf("made at %s, not an hour ago: %v", made, err)
	}
	for since, n := range map[string]int{"30m": 1, "0s": 0} {
		if list := apptest.MustCommand[[]object](t, h, "delivery", "list", "--since", since); len(list) != n {
			t.Errorf("delivery list --since %s: %d deliveries, want %d", since, len(list), n)
		}
	}
	if got := apptest.MustCommand[object](t, h, "delivery", "redeliver", "--status", "delivered", "--since", "30m",
		"--yes"); got["redelivered"] != 1.0 {
		t.Errorf("delivery redeliver --since 30m: %v", got)
	}
	halfAnHourAgo := time.Now().Add(-30 * time.Minute).UTC().Format(time.RFC3339) // is half an hour ahead of the database
	if out, errOut, code := h.Command(t, "retention", "run", "--before", halfAnHourAgo); code != 2 {
		t.Errorf("retention run --before what is to come: exit code %d, %s%s", code, out, errOut)
	}
	want(t, s.Do(t, http.MethodGet, requestPath(id), nil), http.StatusOK)
	for _, list := range []string{"request", "delivery", "supplier"} {
		out, errOut, code := h.Command(t, list, "list")
		if fields := strings.Fields(out); code != 0 || strings.Contains(out, " 1h ") || len(fields) == 0 {
			t.Errorf("%s list shows the age of what was just made:\n%s%s", list, out, errOut)
		}
	}
}

// hourBack is the address of an empty database whose clock is an hour back.
func hourBack(t *testing.T) string {
	t.Helper()
	address := databasetest.EmptyPostgres(t)
	db := openDatabase(t, &apptest.Hub{Stack: apptest.Production, Env: map[string]string{"DATABASE_URL": address}})
	if _, err := db.ExecContext(t.Context(), `
		CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql
			AS $$ SELECT pg_catalog.clock_timestamp() - interval '1 hour' $$;
		DO $$ BEGIN
			EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
		END $$`); err != nil {
		t.Fatal(err)
	}
	return address
}
