package sending_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/round"
)

// ids returns the webhook-ids of a request's deliveries by their rounds and destinations.
func (r *rig) ids(of round.Round) map[string]string {
	r.tb.Helper()
	its := deliveries.Filter{Requests: []int64{of.UID}}
	found, _, err := r.List(context.Background(), its, deliveries.Key{}, 100)
	if err != nil {
		r.tb.Fatal(err)
	}
	ids := map[string]string{}
	for _, d := range found {
		ids[fmt.Sprint(d.Round, d.Destination)] = d.ID
	}
	return ids
}

func TestWebhookIDs_of_a_round_stay_and_after_a_loss_the_same_round_has_others(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{})
		first, second := event("acme", 1, 1), event("acme", 1, 2)
		r.add(first, second)
		r.settled()
		before := r.ids(first.Round)
		r.add(second, first) // as a worker that had no answer to its COMMIT
		r.settled()
		if again := r.ids(first.Round); len(before) != 4 || fmt.Sprint(again) != fmt.Sprint(before) {
			t.Errorf("the ids were %v and are %v", before, again)
		}
		// a standby that has not got the commits is the primary now
		for _, table := range []string{"webhook_events", "webhook_deliveries", "webhook_attempts"} {
			if err := db.From(t.Context()).Exec(`DELETE FROM ` + table).Error; err != nil {
				t.Fatal(err)
			}
		}
		r.add(first, second)
		r.settled()
		after := r.ids(first.Round)
		for of, id := range after {
			if before[of] == id || len(after) != 4 {
				t.Errorf("the delivery of %s is %s again, of %v", of, id, after)
			}
		}
		seen := map[string]bool{}
		for _, call := range append(r.own.got(), r.acme.got()...) {
			id := call.header.Get("webhook-id")
			if seen[id] {
				t.Errorf("%s came twice", id)
			}
			seen[id] = true
		}
		if len(seen) != 8 {
			t.Errorf("%d ids came", len(seen))
		}
	})
}

func TestRoundOf_a_webhook_id_is_that_of_its_delivery_as_long_as_there_is_one(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{})
		sent := event("acme", 1, 3)
		r.add(sent)
		r.settled()
		ids := r.ids(sent.Round)
		check := func(id string, uid, number int64, own bool) {
			t.Helper()
			gotUID, gotNumber, gotOwn, err := r.RoundOf(t.Context(), id)
			if err != nil || gotUID != uid || gotNumber != number || gotOwn != own {
				t.Errorf("%q: %d/%d, own %v, %v", id, gotUID, gotNumber, gotOwn, err)
			}
		}
		check(ids["3own"], sent.Round.UID, 3, true)
		check(ids["3acme"], sent.Round.UID, 3, false)
		for _, other := range []string{"", "msg_1", "theirs", ids["3own"] + "x", "msg_0007txTR1n1KmaCp7yQ"} {
			check(other, 0, 0, false)
		}
		if n, err := r.Forget(t.Context(), []round.Round{sent.Round}, 3); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		check(ids["3own"], 0, 0, false)
	})
}

func TestRequest_of_very_many_rounds_is_shown_and_forgotten(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{})
		const rounds = 40_000 // times two deliveries is more than a statement takes parameters on either engine
		newest, other := event("acme", 1, rounds), event("acme", 2, 1)
		r.add(newest, other)
		r.settled()
		err := db.From(t.Context()).Exec(`INSERT INTO webhook_events (uid, round, nonce, supplier_id, trace_id, body,
			created_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			SELECT ?, i, i, 'acme', '', '', i FROM n`, rounds-1, newest.Round.UID).Error
		if err != nil {
			t.Fatal(err)
		}
		if ids := r.ids(newest.Round); len(ids) != 2 {
			t.Errorf("%v", ids)
		}
		if n, err := r.Forget(t.Context(), []round.Round{newest.Round}, rounds); n != rounds || err != nil {
			t.Errorf("%d events were deleted: %v", n, err)
		}
		if left := r.list(deliveries.Filter{}); len(left) != 2 || left[0].RequestID != 2 || left[1].RequestID != 2 {
			t.Errorf("left is %v", left)
		}
	})
}
