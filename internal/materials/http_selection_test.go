package materials_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/materials"
)

func TestSelect_chooses_an_estimate_once_and_for_all(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		expect(t, p.deliver("msg_1", event("acme", 1, noon, "e1", "e2")), 200)
		p.now.Store(noon.Add(1500 * time.Millisecond).UnixMicro())
		const chosen = `{"status":"selected","id":1,"estimate_id":"e2","selected_at":"2026-11-20T12:00:01.5Z"}`
		expect(t, p.choose("acme", 1, "e2"), 200, chosen)
		r := p.row("acme", 1)
		if r.Status != "selected" || r.SelectedEstimateID == nil || *r.SelectedEstimateID != "e2" ||
			r.UpdatedAt != p.now.Load() {
			t.Errorf("the request became %+v", r)
		}
		p.now.Store(noon.Add(30 * 24 * time.Hour).UnixMicro())
		expect(t, p.choose("acme", 1, "e2"), 200, chosen) // past valid_until too: nothing changes
		expect(t, p.choose("acme", 1, "e1"), 409)
		expect(t, p.choose("acme", 1, "unknown"), 409)
	})
}

func TestSelect_refusals(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for id := range int64(4) {
			p.enqueue("acme", id)
		}
		p.exec("UPDATE material_requests SET status = 'failed' WHERE id = 1")
		expect(t, p.deliver("msg_1", event("acme", 2, noon, "e1")), 200)
		expect(t, p.deliver("msg_1", event("acme", 3, noon)), 200)
		expect(t, p.choose("acme", 99, "e1"), 404)
		expect(t, p.choose("other", 2, "e1"), 404)
		expect(t, p.choose("acme", 0, "e1"), 409)
		expect(t, p.choose("acme", 1, "e1"), 409)
		expect(t, p.choose("acme", 3, "e1"), 422)
		unknown := p.choose("acme", 2, "e9")
		expect(t, unknown, 422)
		if diff := cmp.Diff([]string{"/estimate_id"}, pointers(t, unknown)); diff != "" {
			t.Errorf("violations (-want +got):\n%s", diff)
		}
		p.now.Store(noon.Add(7*24*time.Hour + time.Microsecond).UnixMicro())
		expect(t, p.choose("acme", 2, "e1"), 422)
		p.expectStatus("acme", 2, materials.Estimated)
		p.now.Store(noon.Add(7 * 24 * time.Hour).UnixMicro())
		expect(t, p.choose("acme", 2, "e1"), 200) // until the very moment
	})
}

func TestSelect_of_an_invalid_body(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		patch := func(path, body string) int {
			return p.call(http.MethodPatch, path, body, "X-Supplier", "acme").Code
		}
		for _, body := range []string{``, `{}`, `[]`, `{"estimate_id":null}`, `{"estimate_id":7}`, `{"estimate_id":" "}`,
			`{"estimate_id":"e1"} x`, `{"Estimate_id":"e1"}`} {
			if got := patch("/api/material-requests/1/selected-estimate", body); got != 400 {
				t.Errorf("body %s: %d, want 400", body, got)
			}
		}
		if got := patch("/api/material-requests/+1/selected-estimate", `{"estimate_id":"e1"}`); got != 404 {
			t.Errorf("an id in another spelling: %d, want 404", got)
		}
	})
}

func TestSelect_of_two_estimates_at_once_has_one_winner(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p, other := newPipeline(t, db, nil), newPipeline(t, db, nil)
		for round := range int64(200) {
			p.enqueue("acme", round)
			expect(t, p.deliver("msg_1", event("acme", round, noon, "e0", "e1")), 200)
			var codes [4]int
			atOnce(len(codes), func(i int) {
				codes[i] = []*pipeline{p, other}[i/2].choose("acme", round, fmt.Sprintf("e%d", i%2)).Code
			})
			winner := 0
			if codes[0] != 200 {
				winner = 1
			}
			// Everyone who chose the winner's estimate gets 200, every other 409.
			want := [4]int{409, 409, 409, 409}
			want[winner], want[winner+2] = 200, 200
			if codes != want {
				t.Fatalf("round %d: %v", round, codes)
			}
			if r := p.row("acme", round); *r.SelectedEstimateID != fmt.Sprintf("e%d", winner) {
				t.Fatalf("round %d: the answer was that e%d has won, %s is stored", round, winner, *r.SelectedEstimateID)
			}
		}
	})
}

func TestSelect_racing_new_estimates_never_chooses_one_that_was_replaced(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p, other := newPipeline(t, db, nil), newPipeline(t, db, nil)
		other.secret = p.secret
		var selected, replaced atomic.Int64
		for round := range int64(200) {
			p.enqueue("acme", round)
			expect(t, p.deliver("msg_1", event("acme", round, noon, "old")), 200)
			var receipt, selection int
			atOnce(2, func(i int) {
				if i == 0 {
					receipt = p.deliver("msg_2", event("acme", round, noon.Add(time.Second), "new")).Code
					return
				}
				selection = other.choose("acme", round, "old").Code
			})
			r := p.row("acme", round)
			switch {
			case selection == 200 && receipt == 409:
				selected.Add(1)
				if r.Status != "selected" || !slices.Contains(r.estimateIDs(), *r.SelectedEstimateID) {
					t.Fatalf("round %d: selected %s of %v", round, *r.SelectedEstimateID, r.estimateIDs())
				}
			case selection == 422 && receipt == 200:
				replaced.Add(1)
				if r.Status != "estimated" || !cmp.Equal(r.estimateIDs(), []string{"new"}) {
					t.Fatalf("round %d: %s with %v", round, r.Status, r.estimateIDs())
				}
			default:
				t.Fatalf("round %d: selection %d, receipt %d", round, selection, receipt)
			}
		}
		t.Logf("%d selections won, %d receipts", selected.Load(), replaced.Load())
	})
}
