package work

import (
	"strconv"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

func TestQueueView(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_795_000_000, 0)
	type look struct {
		after  time.Duration
		last   int64 // the greatest number given out
		first  int64 // the first ticket in the queue; 0: it is empty, -1: the queue is unavailable
		store  int64
		below  int64
		reason string
	}
	for name, looks := range map[string][]look{
		"what is queued behind the first message is never lost": {
			{0, 1_000_000, 5, 1, 5, "the process begins: earlier tickets are old"},
			{time.Second, 1_000_100, 5, 1, 5, ""}, {time.Minute, 2_000_000, 5, 1, 5, "slow workers"},
		},
		"what has just left the queue is still being done": {
			{0, 100, 10, 1, 10, ""}, {time.Second, 100, 50, 1, 10, ""}, {2 * time.Second, 100, 90, 1, 10, ""},
			{6 * time.Second, 100, 95, 1, 50, "settled for five seconds"}, {8 * time.Second, 100, 0, 1, 90, ""},
		},
		"what was just accepted is on its way into an empty queue": {
			{0, 100, 0, 1, 101, ""}, {time.Second, 200, 0, 1, 101, ""}, {2 * time.Second, 300, 0, 1, 101, ""},
			{6 * time.Second, 300, 0, 1, 201, ""},
		},
		"a store that is gone is refilled at once": {
			{0, 1000, 5, 1, 5, ""}, {6 * time.Second, 1000, 5, 1, 5, ""}, {7 * time.Second, 1100, 0, 2, 1001, ""},
		},
		"a queue that was away and comes back empty as well": {
			{0, 1000, 5, 1, 5, ""}, {time.Second, 1000, -1, 0, 0, ""}, {7 * time.Second, 1500, -1, 0, 0, ""},
			{8 * time.Second, 1600, 0, 1, 1001, ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var v queueView
			for i, l := range looks {
				at := begin.Add(l.after)
				if l.first < 0 {
					v.unavailable(at, l.last)
					continue
				}
				backlog := round.Backlog{Store: l.store}
				if l.first > 0 {
					backlog.First = subjectPrefix + strconv.FormatInt(l.first, 10)
				}
				if below := v.observe(at, l.last, backlog); below != l.below {
					t.Errorf("look %d: lost below %d, want %d %s", i, below, l.below, l.reason)
				}
			}
		})
	}
}

func TestDirectView(t *testing.T) {
	t.Parallel()
	type look struct {
		first  headOfWork
		last   int64 // the greatest number given out
		below  int64
		reason string
	}
	at := func(ticket int64) headOfWork { return headOfWork{ticket: ticket} }
	for name, looks := range map[string][]look{
		"nothing waits": {{headOfWork{}, 0, 0, ""}, {headOfWork{}, 0, 0, ""}, {headOfWork{}, 0, 0, ""}},
		"work that moves is the queue's": {
			{at(1), 100, 0, ""}, {at(50), 200, 0, ""}, {at(120), 300, 0, ""}, {at(260), 400, 0, ""},
		},
		"work that does not move is taken, but for what is on its way": {
			{at(5), 100, 0, ""}, {at(5), 110, 0, ""}, {at(5), 120, 111, "the third look"}, {at(112), 130, 121, "and so on"},
			{at(131), 140, 0, "nothing is left that waited at the look before"}, {at(131), 150, 0, ""},
			{at(131), 160, 151, ""},
		},
		"work whose next try was due does not move": {
			{headOfWork{retryAt: 7}, 9, 0, ""}, {headOfWork{retryAt: 7}, 9, 0, ""}, {headOfWork{retryAt: 7}, 9, 10, ""},
		},
		"others' work after a pause is the queue's again": {
			{at(5), 100, 0, ""}, {at(5), 100, 0, ""}, {headOfWork{}, 0, 0, ""}, {at(200), 210, 0, ""}, {at(211), 220, 0, ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var v directView
			for i, l := range looks {
				if below := v.observe(l.first, l.last); below != l.below {
					t.Errorf("look %d: taken below %d, want %d %s", i, below, l.below, l.reason)
				}
			}
		})
	}
}
