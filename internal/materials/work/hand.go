package work

import (
	"slices"
	"sync"

	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// A worker has rounds in hand that wait for their estimation, and rounds that are estimated. It keeps suppliers apart,
// in three ways:
//
//   - each supplier has a line of its own, and the lines take turns, so that a burst delays its own supplier alone;
//   - a supplier may have a quarter of what no other has under way, in number and in bytes, so that one whose
//     estimations are slow leaves room for the others, and a lone one is never held back;
//   - a supplier may have a quarter of the places that wait, and no more than it leaves free, so that the first bursts
//     do not take all. A round without a place stays due in the database, and a look finds it when there is room.

const (
	defaultAtOnce = 1024     // estimations under way
	bytesAtOnce   = 64 << 20 // of their requests
	handMost      = 16_384   // rounds that wait; about 200 bytes each
	perTurn       = 8        // rounds that a line gives in its turn
)

// hand is what this worker has in hand. All of it is under the lock.
type hand struct {
	atOnce int

	mu      sync.Mutex
	may     sync.Cond             // something may begin, or the hand is closed
	rounds  map[round.Round]int64 // waits, or the bytes counted of one that is under way
	lines   map[string]*line      // of the suppliers that have some
	turn    []*line               // those with rounds that wait; the next one is first
	waiting int
	running load
	refused bool          // rounds were refused for lack of room
	idle    chan struct{} // holds a note when nothing may begin although some were refused
	closed  bool
}

// waits takes the place of the bytes of a round that is not begun.
const waits = -1

// line is one supplier's.
type line struct {
	supplier string
	waiting  []round.Round
	running  load
}

// load is how much is under way.
type load struct {
	rounds int
	bytes  int64
}

func newHand(atOnce int) *hand {
	h := &hand{atOnce: atOnce, rounds: map[round.Round]int64{}, lines: map[string]*line{}, idle: make(chan struct{}, 1)}
	h.may.L = &h.mu
	return h
}

// add puts those of the rounds in hand that are not and find a place.
func (h *hand) add(rounds []round.Round) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	for _, r := range rounds {
		if _, known := h.rounds[r]; known {
			continue
		}
		l := h.lines[r.SupplierID]
		if l == nil {
			l = &line{supplier: r.SupplierID}
		}
		if len(l.waiting) >= min(handMost/4, handMost-h.waiting) {
			h.refused = true
			continue
		}
		h.lines[r.SupplierID] = l
		if len(l.waiting) == 0 {
			h.turn = append(h.turn, l)
		}
		l.waiting = append(l.waiting, r)
		h.rounds[r] = waits
		h.waiting++
	}
	h.may.Broadcast()
}

// without returns those of the rounds that are not in hand.
func (h *hand) without(rounds []round.Round) []round.Round {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(rounds, func(r round.Round) bool {
		_, known := h.rounds[r]
		return known
	})
}

// more notes that more rounds are due than a look has found.
func (h *hand) more() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = true
	h.may.Broadcast()
}

// wasRefused reports whether rounds were refused, or more, since the last call.
func (h *hand) wasRefused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	refused := h.refused
	h.refused = false
	return refused
}

// await waits until a round may begin and returns how many wait; 0 when the hand is closed.
func (h *hand) await() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.closed && !h.mayBegin() {
		if h.refused {
			sleep.Wake(h.idle)
		}
		h.may.Wait()
	}
	if h.closed {
		return 0
	}
	return h.waiting
}

func (h *hand) mayBegin() bool {
	return slices.ContainsFunc(h.turn, func(l *line) bool { return h.share(l) > 0 })
}

// take begins at most n of the rounds that wait, some of each line in its turn.
func (h *hand) take(n int) (rounds []round.Round) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for passed := 0; len(rounds) < n && !h.closed && passed < len(h.turn); {
		l := h.turn[0]
		h.turn = h.turn[1:]
		some := min(len(l.waiting), n-len(rounds), perTurn, h.share(l))
		for _, r := range l.waiting[:some] {
			h.rounds[r] = 0
			rounds = append(rounds, r)
		}
		if l.waiting = l.waiting[some:]; len(l.waiting) > 0 {
			h.turn = append(h.turn, l)
		} else {
			l.waiting = nil
		}
		if passed++; some > 0 {
			passed = 0
		}
		l.running.rounds += some
		h.running.rounds += some
		h.waiting -= some
	}
	return rounds
}

// share returns how many more rounds of the line may begin.
func (h *hand) share(l *line) int {
	if h.running.rounds >= 2*h.atOnce {
		return 0
	}
	if l.running.rounds == 0 {
		return max(h.atOnce-h.running.rounds, 4) / 4
	}
	if l.running.bytes > (bytesAtOnce-h.running.bytes+l.running.bytes)/4 {
		return 0
	}
	return max((h.atOnce-h.running.rounds+l.running.rounds)/4-l.running.rounds, 0)
}

// weigh counts the size of a round that is under way.
func (h *hand) weigh(r round.Round, bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if had, known := h.rounds[r]; known && had != waits {
		h.rounds[r] += bytes
		h.lines[r.SupplierID].running.bytes += bytes
		h.running.bytes += bytes
	}
}

// done ends those of the rounds that are begun. Others may have been ended before, and wait again.
func (h *hand) done(rounds ...round.Round) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range rounds {
		bytes, known := h.rounds[r]
		if !known || bytes == waits {
			continue
		}
		delete(h.rounds, r)
		l := h.lines[r.SupplierID]
		for _, sum := range []*load{&l.running, &h.running} {
			sum.rounds--
			sum.bytes -= bytes
		}
		if l.running.rounds == 0 && len(l.waiting) == 0 {
			delete(h.lines, l.supplier)
		}
	}
	h.may.Broadcast()
}

// keep drops the rounds that wait of suppliers that another worker serves now.
func (h *hand) keep(serves func(supplierID string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn = slices.DeleteFunc(h.turn, func(l *line) bool {
		if serves(l.supplier) {
			return false
		}
		for _, r := range l.waiting {
			delete(h.rounds, r)
		}
		h.waiting -= len(l.waiting)
		if l.waiting = nil; l.running.rounds == 0 {
			delete(h.lines, l.supplier)
		}
		return true
	})
}

// close begins nothing more. Rounds that wait stay due.
func (h *hand) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.may.Broadcast()
}
