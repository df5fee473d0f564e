package dispatch

import (
	"container/heap"
	"slices"
	"time"
)

// Why there is room to ask for. A worker that is given more than it can send would write the rest down as waiting, and
// then search for it and claim it: two more writes and a search a delivery. Three mechanisms keep that from happening
// at the moment of the highest load, when it costs most. The ready queue lets a first attempt that has no slot yet wait
// here, begun in the database with its delivery. Reserve is the estimator's question "is there room?", asked before it
// takes more from the queue of requests: it waits for half a second at most, so that work waits as requests, which cost
// nothing, and it counts what others were granted, as several batches are estimated at the same time. The two together
// brought 64 slots from 1,900 to 2,900 deliveries a second. A Permit is the answer for one delivery: it is taken before
// the transaction that begins the attempt, and afterwards used up by Send or given back by Cancel, so that nothing is
// begun without a slot or a place, and a transaction that fails leaves none taken. Deliveries that have waited in the
// database nevertheless keep a quarter of their destination's slots (share). Without that, either they would wait as
// long as new events come, or new events would wait behind them: a third to three quarters of all went through the
// database then.

const (
	queuePerSlot = 8           // attempts that may be queued, for each slot
	queueMost    = 1024        // and in all
	queueWait    = time.Second // an attempt that was queued longer goes back to the database
)

// readyQueue is where leased first attempts wait that have no slot yet: those of destinations that answer fast, so that
// each gets a slot within milliseconds, and of those without a limit of their own while they answer. Everything else
// waits in the database, which costs two more writes and a search a delivery. The oldest goes first, past destinations
// that have all that they may. It is used under the scheduler's lock.
type readyQueue[J any] struct {
	expected int // attempts for which Reserve granted room and Admit has not been asked yet
	reserved int // permits that are not used yet
	length   int
	next     uint64
	members  map[*destination[J]]struct{} // destinations with queued attempts
	heap     byOldest[J]
	room     chan struct{} // closed when there is room again; nil when nothing waits for it
}

type queued[J any] struct {
	job   J
	order uint64
	since time.Time
}

// assignment is a job that has its slot.
type assignment[J any] struct {
	to    *destination[J]
	job   J
	first bool // it did not wait in the database
}

// byOldest is the heap of the destinations that may take their oldest queued attempt, as far as they are concerned.
type byOldest[J any] []*destination[J]

func (h byOldest[J]) Len() int           { return len(h) }
func (h byOldest[J]) Less(i, j int) bool { return h[i].queued[0].order < h[j].queued[0].order }
func (h byOldest[J]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byOldest[J]) Push(d any)        { *h = append(*h, d.(*destination[J])) }
func (h *byOldest[J]) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}

// capacity returns how many attempts may be queued.
func (s *Scheduler[J]) capacity() int { return min(queuePerSlot*s.config.Slots, queueMost) }

// load counts quick attempts in flight plus expected, reserved and queued ones.
func (s *Scheduler[J]) load() int {
	return s.quick + s.queue.expected + s.queue.reserved + s.queue.length
}

func (s *Scheduler[J]) mayQueue(d *destination[J]) bool {
	own := d.reserved + len(d.queued)
	return d.queues() && s.queue.reserved+s.queue.length < s.config.Slots+s.capacity() &&
		(d.limit == 0 || own < d.mostQueued(s.config.Slots))
}

// push queues a job in the place that was reserved for it.
func (s *Scheduler[J]) push(d *destination[J], job J) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.reserved--
	d.reserved--
	if !s.open || !d.queues() {
		s.giveBack([]J{job})
		s.evict(d)
		return
	}
	s.queue.next++
	s.queue.length++
	d.queued = append(d.queued, queued[J]{job, s.queue.next, s.config.Now()})
	if len(d.queued) == 1 {
		s.queue.members[d] = struct{}{}
		s.queue.unpark(d)
	}
	s.advance()
}

// advance assigns free slots to queued attempts, the oldest first.
func (s *Scheduler[J]) advance() {
	limit := s.config.Slots
	if s.starved { // the database waits too
		limit -= s.quarter()
	}
	for len(s.queue.heap) > 0 && s.spare(true, limit) {
		d := s.queue.heap[0]
		if s.late(d.queued[0]) {
			s.giveBack(s.dropLate())
			continue
		}
		if !d.share(s.config.Slots) || !s.take(d, true) { // it is parked until one of its attempts ends
			s.queue.park()
			continue
		}
		s.pool.begin(assignment[J]{d, s.queue.pop(), true})
	}
	s.queue.makeRoom(s)
}

func (s *Scheduler[J]) late(q queued[J]) bool { return s.config.Now().Sub(q.since) > queueWait }

// dropLate takes all attempts out that waited too long.
func (s *Scheduler[J]) dropLate() (dropped []J) {
	for d := range s.queue.members {
		n := slices.IndexFunc(d.queued, func(q queued[J]) bool { return !s.late(q) })
		if n < 0 {
			n = len(d.queued)
		}
		dropped = s.queue.drop(d, n, dropped)
	}
	s.queue.rebuild()
	return dropped
}

// dropQueued takes all attempts of the destinations out.
func (s *Scheduler[J]) dropQueued(of func(*destination[J]) bool) (dropped []J) {
	for d := range s.queue.members {
		if of(d) {
			dropped = s.queue.drop(d, len(d.queued), dropped)
		}
	}
	s.queue.rebuild()
	return dropped
}

// drop takes the oldest n attempts of a destination out; the caller rebuilds the heap.
func (q *readyQueue[J]) drop(d *destination[J], n int, dropped []J) []J {
	for _, entry := range d.queued[:n] {
		dropped = append(dropped, entry.job)
	}
	q.length -= n
	d.queued = slices.Delete(d.queued, 0, n)
	if len(d.queued) == 0 {
		delete(q.members, d)
	}
	return dropped
}

// rebuild repairs the heap after attempts were dropped.
func (q *readyQueue[J]) rebuild() {
	q.heap = slices.DeleteFunc(q.heap, func(d *destination[J]) bool {
		d.ready = len(d.queued) > 0
		return !d.ready
	})
	heap.Init(&q.heap)
}

// pop takes the oldest attempt out.
func (q *readyQueue[J]) pop() J {
	d := q.heap[0]
	job := d.queued[0].job
	d.queued[0] = queued[J]{}
	d.queued = d.queued[1:]
	q.length--
	if len(d.queued) == 0 {
		d.queued = nil
		delete(q.members, d)
		q.park()
	} else {
		heap.Fix(&q.heap, 0)
	}
	return job
}

// park takes the first destination out of the heap; its attempts stay queued.
func (q *readyQueue[J]) park() { heap.Pop(&q.heap).(*destination[J]).ready = false }

// unpark lets the destination take queued attempts again.
func (q *readyQueue[J]) unpark(d *destination[J]) {
	if !d.ready && len(d.queued) > 0 {
		d.ready = true
		heap.Push(&q.heap, d)
	}
}

// Reserve waits until some of the wanted attempts can be admitted, for the given time at most, and returns how many: an
// attempt without a permit costs two more writes, and waits better where it comes from. release is to be called when
// Admit has been asked for all of them.
func (s *Scheduler[J]) Reserve(want int, wait time.Duration) (granted int, release func()) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for late := false; ; {
		granted, room := s.reserve(want, late)
		if granted > 0 {
			return granted, func() { s.release(granted) }
		}
		select {
		case <-room:
		case <-timer.C:
			late = true
		}
	}
}

// reserve grants as many as there is room for, once that is all of them or half of the queue. Slow destinations do not
// count: to wait for these would let them slow everything down.
func (s *Scheduler[J]) reserve(want int, late bool) (granted int, room <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.config.Slots + s.capacity() - s.load()
	switch {
	case late:
		granted = want
	case !s.unlimitedWaits() && free >= min(want, s.capacity()/2):
		granted = min(want, free)
	default:
		if s.queue.room == nil {
			s.queue.room = make(chan struct{})
		}
		return 0, s.queue.room
	}
	s.queue.expected += granted
	return granted, nil
}

func (s *Scheduler[J]) release(granted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.expected -= granted
	s.queue.makeRoom(s)
}

// unlimitedWaits reports whether due work to a destination without a limit of its own waits for a slot.
func (s *Scheduler[J]) unlimitedWaits() bool {
	return slices.ContainsFunc(s.waiting, func(d *destination[J]) bool { return d.limit == 0 })
}

func (q *readyQueue[J]) makeRoom(s *Scheduler[J]) {
	if q.room != nil && s.load() <= s.config.Slots+s.capacity()/2 && !s.unlimitedWaits() {
		close(q.room)
		q.room = nil
	}
}
