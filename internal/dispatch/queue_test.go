package dispatch_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/supplyhub/supplyhub/internal/dispatch"
)

// full returns a field of two slots that own and a fast supplier have, with more attempts of both queued.
func full(t *testing.T, queued int, names ...string) *field {
	t.Helper()
	f := newField(t, len(names))
	for _, name := range names {
		f.calls(t, to(name), 1, true, time.Millisecond)
	}
	for _, name := range names {
		p, ok := f.Admit(to(name))
		if !ok {
			t.Fatalf("%s gets no slot", name)
		}
		p.Send(job{name, 0})
	}
	for n := range queued {
		for _, name := range names {
			p, ok := f.Admit(to(name))
			if !ok {
				t.Fatalf("%s gets no place %d", name, n)
			}
			p.Send(job{name, n + 1})
		}
	}
	synctest.Wait()
	f.resetSent()
	return f
}

func TestQueue_sends_the_oldest_first(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := full(t, 3, "own", "a")
		for range 3 {
			f.end("own", true, time.Millisecond)
			f.end("a", true, time.Millisecond)
		}
		want := []job{{"own", 1}, {"a", 1}, {"own", 2}, {"a", 2}, {"own", 3}, {"a", 3}}
		if !slices.Equal(f.sent(), want) {
			t.Errorf("sent %v", f.sent())
		}
	})
}

func TestQueue_goes_on_past_a_destination_that_has_all_it_may(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newField(t, 4)
		one := dispatch.Destination{Name: "one", Limit: 1}
		f.calls(t, one, 1, true, 90*time.Millisecond)
		f.calls(t, to("a"), 1, true, time.Millisecond)
		for n := range 5 {
			p, ok := f.Admit(one)
			if !ok {
				t.Fatalf("attempt %d is not admitted", n)
			}
			p.Send(job{"one", n})
		}
		p, ok := f.Admit(to("a"))
		if !ok {
			t.Fatal("a is not admitted")
		}
		f.resetSent()
		p.Send(job{"a", 1})
		synctest.Wait()
		if want := []job{{"one", 0}, {"a", 1}}; f.flying("one") != 1 || f.flying("a") != 1 {
			t.Errorf("sent %v, want %v", f.sent(), want)
		}
		f.endAll()
		if len(f.returned()) != 0 || len(f.sent()) != 6 {
			t.Errorf("sent %v, gave back %v", f.sent(), f.returned())
		}
	})
}

func TestQueue_is_bounded_for_each_destination_and_in_all(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newField(t, 4)
		one := dispatch.Destination{Name: "one", Limit: 1}
		f.calls(t, to("own"), 1, true, time.Millisecond)
		f.calls(t, one, 1, true, time.Millisecond)
		n := 0
		for p, ok := f.Admit(one); ok; p, ok = f.Admit(one) {
			p.Send(job{"one", n})
			n++
		}
		if n != 1+16 {
			t.Errorf("%d attempts of a destination that takes one at a time", n)
		}
		for p, ok := f.Admit(to("own")); ok; p, ok = f.Admit(to("own")) {
			p.Send(job{"own", n})
			n++
		}
		if n != 1+4+32+3 {
			t.Errorf("%d attempts in all", n)
		}
	})
}

func TestQueue_gives_back_what_waited_too_long_or_whose_destination_fails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := full(t, 5, "own", "a")
		f.end("a", false, time.Second)
		if len(f.returned()) != 5 || f.flying("own") != 2 {
			t.Errorf("gave back %v, own has %v", f.returned(), f.flying("own"))
		}
		time.Sleep(1001 * time.Millisecond)
		f.claim()
		if len(f.returned()) != 5+4 {
			t.Errorf("gave back %v", f.returned())
		}
	})
}

func TestOwn_gives_the_queue_of_lost_destinations_back_and_forgets_them(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := full(t, 3, "a", "b")
		p, ok := f.Admit(to("a"))
		if !ok {
			t.Fatal("a is not admitted")
		}
		f.Own(func(name string) bool { return name == "b" }, nil)
		p.Send(job{"a", 9}) // its transaction ended after the shard was lost
		synctest.Wait()
		if len(f.returned()) != 4 || slices.ContainsFunc(f.returned(), func(j job) bool { return j.to != "a" }) {
			t.Errorf("gave back %v", f.returned())
		}
		f.end("a", true, time.Millisecond)
		f.endAll()
		if len(f.sent()) != 3 {
			t.Errorf("sent %v", f.sent())
		}
	})
}

func TestStop_gives_the_queue_back_and_ends_when_the_attempts_have_ended(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := full(t, 3, "own", "a")
		idle := f.Stop()
		synctest.Wait()
		if len(f.returned()) != 6 {
			t.Errorf("gave back %v", f.returned())
		}
		if _, ok := f.Admit(to("own")); ok || len(f.claim(to("own"))) > 0 {
			t.Error("it begins something after the stop")
		}
		select {
		case <-idle:
			t.Error("it ended before its attempts")
		default:
		}
		f.endAll()
		<-idle
	})
}

func TestReserve_waits_for_room_and_no_longer_than_it_may(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newField(t, 2)
		n, release := f.Reserve(100, time.Minute)
		if n != 2+16 {
			t.Fatalf("%d of 18", n)
		}
		before := time.Now()
		if n, release := f.Reserve(5, time.Second); n != 5 || time.Since(before) != time.Second {
			t.Errorf("%d after %s", n, time.Since(before))
		} else {
			release()
		}
		granted := make(chan int)
		go func() {
			n, release := f.Reserve(5, time.Minute)
			release()
			granted <- n
		}()
		synctest.Wait()
		release()
		if n := <-granted; n != 5 || time.Since(before) != time.Second {
			t.Errorf("%d after %s", n, time.Since(before))
		}
	})
}

func TestReserve_lets_due_work_without_a_limit_go_first(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newField(t, 2)
		f.claim(to("own"))
		f.claim(to("own")) // gets nothing
		before := time.Now()
		if _, release := f.Reserve(1, time.Second); time.Since(before) != time.Second {
			t.Error("it did not wait")
		} else {
			release()
		}
	})
}
