package work

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/round"
)

// some returns n rounds of a supplier, from the given number on.
func some(supplier string, from, n int64) []round.Round {
	rounds := make([]round.Round, n)
	for i := range rounds {
		id := from + int64(i)
		rounds[i] = round.Round{SupplierID: supplier, RequestID: id, UID: id, Number: 1}
	}
	return rounds
}

func TestHand_gives_each_supplier_its_turn_whatever_burst_another_sends(t *testing.T) {
	t.Parallel()
	h := newHand(100)
	h.add(some("burst", 1, 5000))
	h.add(some("acme", 1, 3))
	h.add(some("brico", 1, 1))
	got := map[string]int{}
	for _, r := range h.take(20) {
		got[r.SupplierID]++
	}
	if got["acme"] != 3 || got["brico"] != 1 || got["burst"] != 16 {
		t.Errorf("begun are %v", got)
	}
}

func TestHand_leaves_room_next_to_a_supplier_whose_estimations_take_long(t *testing.T) {
	t.Parallel()
	h := newHand(100)
	slow := some("slow", 1, 1000)
	h.add(slow)
	if n := len(h.take(1000)); n != 25 {
		t.Errorf("a lone supplier has %d of 100 under way, want a quarter", n)
	}
	if n := len(h.take(1000)); n != 0 {
		t.Errorf("it gets %d more", n)
	}
	for i := range 50 { // however many are slow
		h.add(some(fmt.Sprintf("slow%d", i), 1, 1000))
	}
	h.take(1000)
	h.add(some("acme", 1, 1))
	if got := h.take(1000); len(got) == 0 || got[len(got)-1].SupplierID != "acme" {
		t.Errorf("a healthy one gets nothing: %v", got)
	}
	if h.running.rounds > 200 {
		t.Errorf("%d are under way", h.running.rounds)
	}
	h = newHand(100)
	h.add(slow)
	for _, r := range h.take(4) {
		h.weigh(r, bytesAtOnce/16)
	}
	h.take(1)
	h.weigh(slow[4], 1)
	if n := len(h.take(1000)); n > 0 {
		t.Errorf("with a quarter of the bytes under way a supplier gets %d more", n)
	}
	h.done(slow[0])
	if n := len(h.take(1)); n != 1 {
		t.Error("when one has ended it gets no other")
	}
}

func TestHand_refuses_what_finds_no_place_and_notes_that_when_it_has_nothing_to_do(t *testing.T) {
	t.Parallel()
	h := newHand(100)
	h.add(some("burst", 1, handMost))
	if h.waiting != handMost/4 || !h.refused {
		t.Errorf("%d wait", h.waiting)
	}
	h.add(some("acme", 1, 1))
	if h.waiting != handMost/4+1 {
		t.Error("another supplier found no place")
	}
	h.keep(func(supplierID string) bool { return supplierID == "none" })
	go h.await() // which would end at once while something may begin
	h.more()
	<-h.idle
	if h.waiting > 0 || len(h.rounds) > 0 || len(h.lines) > 0 {
		t.Errorf("of shards that moved, %d wait", h.waiting)
	}
	h.close()
}

func TestHand_has_a_place_for_another_supplier_however_many_have_theirs(t *testing.T) {
	t.Parallel()
	h := newHand(100)
	for i := range 8 {
		h.add(some(fmt.Sprint("burst", i), 1, handMost))
		before := h.waiting
		h.add(some(fmt.Sprint("acme", i), 1, 1))
		if h.waiting != before+1 {
			t.Errorf("next to %d bursts another supplier found no place", i+1)
		}
		if l := h.lines[fmt.Sprint("burst", i)]; l == nil || len(l.waiting) == 0 || len(l.waiting) > handMost/4 {
			t.Errorf("burst %d: %+v", i+1, l)
		}
	}
	if h.waiting > handMost {
		t.Errorf("%d wait", h.waiting)
	}
}

// Whatever comes, begins and ends in whatever order: each round is in hand once, and the sums are those of the lines.
func TestHand_keeps_its_sums(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := newHand(rapid.IntRange(4, 40).Draw(t, "at once"))
		begun := map[round.Round]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				supplier := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "supplier")
				h.add(some(supplier, rapid.Int64Range(1, 30).Draw(t, "from"), rapid.Int64Range(1, 20).Draw(t, "n")))
			},
			"take": func(t *rapid.T) {
				for _, r := range h.take(rapid.IntRange(1, 20).Draw(t, "n")) {
					if begun[r] {
						t.Fatalf("%v begins twice", r)
					}
					begun[r] = true
					h.weigh(r, r.RequestID)
				}
			},
			// Of a batch that met a lock each round is ended twice; meanwhile it may be in hand again.
			"done": func(t *rapid.T) {
				supplier := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "supplier")
				for _, r := range some(supplier, rapid.Int64Range(1, 49).Draw(t, "from"), 3) {
					h.weigh(r, 0)
					h.done(r, r)
					delete(begun, r)
				}
			},
			"keep": func(t *rapid.T) {
				gone := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "gone")
				h.keep(func(supplier string) bool { return supplier != gone })
			},
			"": func(t *rapid.T) {
				var waiting int
				var running load
				for _, l := range h.lines {
					waiting += len(l.waiting)
					running.rounds += l.running.rounds
					running.bytes += l.running.bytes
				}
				if waiting != h.waiting || running != h.running || running.rounds != len(begun) ||
					len(h.rounds) != waiting+len(begun) {
					t.Fatalf("%d wait and %+v run; the lines have %d and %+v, %d in all, %d begun", h.waiting, h.running,
						waiting, running, len(h.rounds), len(begun))
				}
				if len(h.turn) > 0 && h.running.rounds == 0 && !h.mayBegin() {
					t.Fatal("some wait, none runs, and none may begin")
				}
			},
		})
	})
}
