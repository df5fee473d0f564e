package materials_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/materials"
)

func (p *pipeline) reestimate(supplierID string, id int64) *httptest.ResponseRecorder {
	return p.call(http.MethodPost, fmt.Sprintf("/api/material-requests/%d/re-estimate", id), "", "X-Supplier", supplierID,
		"X-Request-Id", "again")
}

func TestReestimate_enqueues_the_request_again_for_a_new_event(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		expect(t, p.post("acme", body(1, nil)), 201)
		if err := p.work("acme", 1); err != nil {
			t.Fatal(err)
		}
		expect(t, p.deliver("msg_1", event("acme", 1, noon, "old")), 200)
		p.world.takePublished()

		p.now.Store(noon.Add(time.Hour).UnixMicro())
		expect(t, p.reestimate("acme", 1), http.StatusAccepted, `{"status":"enqueued","id":1}`)
		if diff := cmp.Diff([]string{"acme/1/2"}, p.world.takePublished()); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		got := p.get("acme", "/1")
		if got["status"] != "enqueued" || len(got["estimates"].([]any)) != 0 || got["updated_at"] != "2026-11-20T13:00:00Z" {
			t.Errorf("while it is estimated again: %v", got)
		}
		expect(t, p.choose("acme", 1, "old"), http.StatusConflict)

		if err := p.work("acme", 1); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"acme/1/1", "acme/1/2"}, p.events()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if found, err := p.Traced(t.Context(), "again", 2); err != nil || len(found) != 1 || found[0].ID != 1 {
			t.Errorf("by the call's X-Request-Id: %v, %v", found, err)
		}
		expect(t, p.deliver("msg_2", event("acme", 1, noon.Add(time.Hour), "new")), 200)
		if ids := p.row("acme", 1).estimateIDs(); !slices.Equal(ids, []string{"new"}) {
			t.Errorf("estimates %v", ids)
		}
		expect(t, p.choose("acme", 1, "new"), http.StatusOK)
	})
}

// Estimates are in the row, or stay in their event: neither is shown in a state that has none.
func TestRequest_shows_estimates_only_while_it_is_estimated_or_selected(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for id, row := range []string{"the row's", "the event's"} {
			id := int64(id)
			p.enqueue("acme", id)
			if err := p.work("acme", id); err != nil {
				t.Fatal(err)
			}
			first := p.round("acme", id)
			p.exec(`UPDATE webhook_events SET body = ? WHERE uid = ?`, []byte(marshal(event("acme", id, noon, "e1"))), first.UID)
			expect(t, p.deliverOwn(first, event("acme", id, noon, "e1")), 200)
			if row == "the event's" {
				p.exec(`UPDATE material_requests SET estimates = NULL, unavailable = NULL WHERE id = ?`, id)
			}
			for _, tt := range []struct {
				status materials.Status
				want   int
			}{{materials.Estimated, 1}, {materials.Enqueued, 0}, {materials.Failed, 0}, {materials.Selected, 1}} {
				p.exec(`UPDATE material_requests SET status = ? WHERE id = ?`, tt.status, id)
				one, list := p.get("acme", fmt.Sprint("/", id)), p.get("acme", "?status="+string(tt.status))
				for _, got := range []object{one, list["data"].([]any)[0].(object)} {
					if len(got["estimates"].([]any)) != tt.want || len(got["unavailable"].([]any)) != tt.want {
						t.Errorf("%s, %s: %v and %v", row, tt.status, got["estimates"], got["unavailable"])
					}
				}
			}
		}
	})
}

func TestReestimate_by_state(t *testing.T) {
	t.Parallel()
	tests := []struct {
		state  materials.Status
		status int
		after  materials.Status
	}{
		{materials.Enqueued, 202, materials.Enqueued},
		{materials.Estimated, 202, materials.Enqueued},
		{materials.Failed, 202, materials.Enqueued},
		{materials.Selected, 409, materials.Selected},
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for i, tt := range tests {
			id := int64(i)
			p.enqueue("acme", id)
			p.exec(`UPDATE material_requests SET status = ?, due_at = NULL WHERE id = ?`, tt.state, id)
			expect(t, p.reestimate("acme", id), tt.status)
			p.expectStatus("acme", id, tt.after)
			moved := tt.status == 202 && tt.state != materials.Enqueued
			if got := p.row("acme", id).DueAt != nil; got != moved {
				t.Errorf("%s: due for a worker: %v, want %v", tt.state, got, moved)
			}
		}
		expect(t, p.reestimate("acme", 99), 404)
		expect(t, p.reestimate("other", 1), 404)
		expect(t, p.call(http.MethodPost, "/api/material-requests/x/re-estimate", "", "X-Supplier", "acme"), 404)
	})
}

func TestReestimate_and_a_choice_at_once_leave_one_of_the_two(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for id := range int64(20) {
			expect(t, p.post("acme", body(id, nil)), 201)
			expect(t, p.deliver(fmt.Sprintf("msg_%d", id), event("acme", id, noon, "e")), 200)
			var codes [2]int
			atOnce(2, func(i int) {
				if i == 0 {
					codes[0] = p.choose("acme", id, "e").Code
				} else {
					codes[1] = p.reestimate("acme", id).Code
				}
			})
			status := p.row("acme", id).Status
			chosen := codes == [2]int{200, 409} && status == "selected"
			again := codes == [2]int{409, 202} && status == "enqueued"
			if !chosen && !again {
				t.Errorf("request %d: choice %d, re-estimate %d, now %s", id, codes[0], codes[1], status)
			}
		}
	})
}

func TestLook_finds_a_re_estimate_whose_message_was_lost(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		expect(t, p.post("acme", body(1, nil)), 201)
		expect(t, p.deliver("msg_1", event("acme", 1, noon, "e")), 200)
		expect(t, p.reestimate("acme", 1), 202)
		p.world.takePublished()
		p.Own(allShards(), nil)
		p.now.Add(time.Second.Microseconds())
		if n, err := p.Look(t.Context(), false); n != 1 || err != nil {
			t.Errorf("found %d, %v", n, err)
		}
	})
}
