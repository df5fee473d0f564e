package acceptance

import (
	"net/http"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// ownChange is a call that changes something of its supplier.
type ownChange struct {
	method, path string
	body         any
	status       int
}

// changesOf are calls that need each row that a supplier has.
func changesOf(t *testing.T, s *apptest.Supplier, id int64) []ownChange {
	t.Helper()
	estimate := becomes(t, s, id, "estimated").Estimates[0]["estimate_id"]
	return []ownChange{
		{http.MethodPost, "/api/products/sync", object{"action": "upsert", "product": product(object{"weight_kg": 9})}, 200},
		{http.MethodPost, "/api/webhook-receiver/pause", nil, 200},
		{http.MethodPost, "/api/webhook-receiver/resume", nil, 200},
		{http.MethodPut, "/api/webhook-receiver", object{"url": "http://127.0.0.1:1/moved"}, 200},
		{http.MethodPost, "/api/webhook-receiver/rotate-secret", object{}, 200},
		{http.MethodPost, requestPath(id) + "/re-estimate", nil, 202},
		{http.MethodPatch, requestPath(id) + "/selected-estimate", object{"estimate_id": estimate}, 0}, // it may wait
	}
}

func TestLost_process_holds_up_its_own_suppliers_calls_for_seconds_and_no_others(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{})
	receiver := apptest.NewReceiver(t, nil)
	held, other := h.Supplier(t, "--webhook-url", receiver.URL), h.Supplier(t, "--webhook-url", receiver.URL)
	var changes [2][]ownChange
	for i, s := range []*apptest.Supplier{held, other} {
		syncProduct(t, s, object{"action": "upsert", "product": product(nil)}, "created")
		want(t, s.Do(t, http.MethodPost, "/api/webhook-receiver/pause", nil), 200) // so that it has a row
		want(t, s.Do(t, http.MethodPost, "/api/webhook-receiver/resume", nil), 200)
		changes[i] = changesOf(t, s, submit(t, s, nil))
	}
	tx, err := openDatabase(t, h).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // it may be rolled back already
	for _, statement := range []string{
		`SELECT FROM suppliers WHERE id = $1 FOR UPDATE`,
		`SELECT FROM webhook_receivers WHERE supplier_id = $1 FOR UPDATE`,
		`SELECT FROM products WHERE supplier_id = $1 FOR UPDATE`,
		`SELECT FROM material_requests WHERE supplier_id = $1 FOR UPDATE`,
		`SELECT FROM sessions WHERE supplier_id = $1 FOR UPDATE`,
	} {
		if _, err := tx.ExecContext(t.Context(), statement, held.ID); err != nil {
			t.Fatal(err)
		}
	}
	refresh := func(token string) apptest.Answer {
		return h.Do(t, http.MethodPost, refreshPath, object{"refreshToken": token})
	}
	together(len(changes[0]), func(i int) {
		c := changes[0][i]
		a := held.Do(t, c.method, c.path, c.body)
		if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %d, Retry-After %q: %s", c.method, c.path, a.Status, a.Header.Get("Retry-After"), a.Body)
		}
	})
	want(t, h.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", held.APIKey), 503)
	want(t, refresh(held.RefreshToken()), 503)
	// A busy machine may need longer than a change waits for a lock that is free soon. One that is held stays held.
	inTime := func(ask func() apptest.Answer) (a apptest.Answer) {
		wait.Until(t, "it is answered", func() bool {
			a = ask()
			return a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == ""
		})
		return a
	}
	all := func(s *apptest.Supplier, changes []ownChange) {
		for _, c := range changes {
			a := inTime(func() apptest.Answer { return s.Do(t, c.method, c.path, c.body) })
			if c.status != 0 && a.Status != c.status {
				t.Errorf("%s %s: %d %s", c.method, c.path, a.Status, a.Body)
			}
		}
		// A new session's: a refresh that was answered 503 may have used the first one up.
		want(t, inTime(func() apptest.Answer { return refresh(s.Token(t).RefreshToken) }), 200)
	}
	all(other, changes[1])
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	all(held, changes[0])
}
