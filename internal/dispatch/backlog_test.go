package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/supplyhub/supplyhub/internal/dispatch"
)

// fresh is the number of the first job that did not wait in the database.
const fresh = 1000

// admit queues first attempts until so many were sent or none is taken any more.
func (f *field) admit(to dispatch.Destination, n int) (taken int) {
	for ; taken < n; taken++ {
		p, ok := f.Admit(to)
		if !ok {
			break
		}
		p.Send(job{to.Name, fresh + taken})
	}
	synctest.Wait()
	return taken
}

func (f *field) sentFresh() (firsts, waited int) {
	for _, j := range f.sent() {
		if j.n >= fresh {
			firsts++
		} else {
			waited++
		}
	}
	return firsts, waited
}

func TestBacklog_and_first_attempts_of_a_destination_share_its_slots(t *testing.T) {
	for name, c := range map[string]struct{ limit, firsts, waited int }{
		"a single slot changes sides with each attempt": {1, 12, 12},
		"two":                         {2, 12, 12},
		"three":                       {3, 16, 8},
		"four":                        {4, 18, 6},
		"half of the scheduler's own": {plenty, 18, 6},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f, a := newField(t, 16), dispatch.Destination{Name: "a", Limit: c.limit}
				f.calls(t, a, 1, true, time.Millisecond)
				f.claim(a)
				f.admit(a, fresh)
				all := f.flying("a")
				for range 2 * all { // those claimed before anything new came
					f.end("a", true, time.Millisecond)
					f.claim(a)
				}
				f.resetSent()
				for range 24 {
					f.end("a", true, time.Millisecond)
					f.claim(a)
					f.admit(a, 1)
				}
				if firsts, waited := f.sentFresh(); firsts != c.firsts || waited != c.waited {
					t.Errorf("%d first attempts, %d that waited", firsts, waited)
				}
			})
		})
	}
}

func TestBacklog_has_its_slots_though_claiming_takes_long(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newField(t, 16)
		f.calls(t, to("a"), 1, true, time.Millisecond)
		f.claim(to("a"))
		f.admit(to("a"), 50)
		for range 30 {
			f.end("a", true, time.Millisecond)
		}
		if n := f.flying("a"); n != 6 {
			t.Errorf("%d first attempts in 8 slots", n)
		}
		if got := f.claim(to("a")); got["a"] != 2 {
			t.Errorf("claimed %v", got)
		}
	})
}

func TestFirst_attempts_have_all_slots_again_when_nothing_waits_in_the_database(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f, one := newField(t, 16), dispatch.Destination{Name: "one", Limit: 1}
		for _, d := range []dispatch.Destination{to("a"), one} {
			f.calls(t, d, 1, true, time.Millisecond)
		}
		f.claim(to("a"), one)
		f.admit(to("a"), 30)
		f.admit(one, 2)
		for range 10 {
			f.end("a", true, time.Millisecond)
		}
		f.end("one", true, time.Millisecond)
		f.end("one", true, time.Millisecond)
		if a, one := f.flying("a"), f.flying("one"); a != 6 || one != 0 {
			t.Errorf("with the backlog %d and %d", a, one)
		}
		f.claim()
		if a, one := f.flying("a"), f.flying("one"); a != 8 || one != 1 {
			t.Errorf("without it %d and %d", a, one)
		}
	})
}

func TestQueue_takes_no_more_of_a_destination_with_a_backlog_than_it_answers_in_a_moment(t *testing.T) {
	for name, c := range map[string]struct {
		took time.Duration
		want int
	}{"quickly": {time.Millisecond, 128}, "in a while": {20 * time.Millisecond, 40}, "just fast": {90 * time.Millisecond,
		8}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newField(t, 16)
				f.calls(t, to("a"), 1, true, c.took)
				f.claim(to("a"))
				if n := f.admit(to("a"), fresh); n != c.want {
					t.Errorf("%d are queued", n)
				}
			})
		})
	}
}
