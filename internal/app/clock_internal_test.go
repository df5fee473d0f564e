package app

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// Why a stored time is right when the database's clock was set back.
const (
	setBack  = "SetBack of its package writes it again"
	past     = "it says when something was, and nothing waits for it"
	distrust = "who reads it does not believe what is too far ahead"
	validity = "it ends something, which may last longer by the jump"
	renewals = "it is compared with what it was, not with a clock"
)

// decided returns, of each column that holds a time, how it follows a clock that was set back.
func decided() map[string]string {
	return map[string]string{
		"webhook_deliveries.next_attempt_at": setBack, "webhook_receivers.due_at": setBack,
		"operator_events.due_at": setBack, "operator_events.at": setBack, "operator_notices.at": setBack,
		"material_requests.due_at": setBack,

		"webhook_deliveries.resent_at": distrust, "webhook_receivers.recovering_until": distrust,

		"workers.alive_until": renewals,

		"sessions.expires_at": validity, "portal_links.expires_at": validity, "portal_sessions.expires_at": validity,
		"supplier_api_keys.active_until": validity, "supplier_webhook_secrets.active_until": validity,
		"tracker_client_keys.active_until": validity, "tracker_pins.pinned_at": validity,

		"products.source_updated_at": past,
	}
}

var (
	ofTime = regexp.MustCompile(`(^|_)(at|until|since|after)$`)
	ofPast = regexp.MustCompile(`\.(created|updated|last_used|ended|selected|posted|round|started|last_started|counted|` +
		`last_success|last_failure|first_failure|paused|dropped)_at$|\.failing_since$`)
)

func TestTimes_that_are_stored_follow_a_clock_that_was_set_back(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	type column struct{ table, name string }
	columns, err := database.Query(t.Context(), db.SQL(t.Context()), `SELECT m.name, c.name
		FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'`, nil,
		func(c *column) []any { return []any{&c.table, &c.name} })
	if err != nil {
		t.Fatal(err)
	}
	known, seen := decided(), map[string]bool{}
	for _, c := range columns {
		name := fmt.Sprint(c.table, ".", c.name)
		if !ofTime.MatchString(c.name) {
			continue
		}
		seen[name] = true
		if known[name] == "" && !ofPast.MatchString(name) {
			t.Errorf("%s is a time: say how it follows a clock that was set back, and let SetBack write it again if "+
				"something waits for it", name)
		}
	}
	for name, why := range known {
		if !seen[name] {
			t.Errorf("there is no %s any more, of which it is said that %s", name, why)
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d times are found", len(seen))
	}
}
