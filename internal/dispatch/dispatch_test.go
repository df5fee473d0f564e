package dispatch_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/dispatch"
)

// job is an attempt of a test.
type job struct {
	to string
	n  int
}

// attempt is one that is in flight: its end is the test's decision.
type attempt struct {
	job
	end chan dispatch.Report
}

// field is a scheduler with what it did: attempts in flight and jobs given back.
type field struct {
	*dispatch.Scheduler[job]
	mu       sync.Mutex
	inFlight map[string][]attempt
	order    []job // as they were sent
	back     []job
	woken    int
	streak   dispatch.Streak // as last reported
}

// newField must be made inside a synctest bubble: time does not pass but for the test's own sleeps.
func newField(t *testing.T, slots int) *field {
	t.Helper()
	f := &field{inFlight: map[string][]attempt{}}
	f.Scheduler = dispatch.New(dispatch.Config[job]{Slots: slots, Now: time.Now, Send: f.send, GiveBack: f.giveBack,
		Wake: func() { f.woken++ }})
	f.Start()
	t.Cleanup(func() {
		idle := f.Stop()
		synctest.Wait()
		f.endAll()
		<-idle
	})
	return f
}

func (f *field) send(j job, ended func(dispatch.Report) dispatch.Streak) {
	a := attempt{j, make(chan dispatch.Report)}
	f.mu.Lock()
	f.inFlight[j.to] = append(f.inFlight[j.to], a)
	f.order = append(f.order, j)
	f.mu.Unlock()
	streak := ended(<-a.end)
	f.mu.Lock()
	f.streak = streak
	f.mu.Unlock()
}

func (f *field) giveBack(jobs []job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.back = append(f.back, jobs...)
}

// returned are the jobs that were given back, sent those that were sent, in their order.
func (f *field) returned() []job { return f.locked(&f.back) }
func (f *field) sent() []job     { return f.locked(&f.order) }

func (f *field) locked(list *[]job) []job {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(*list)
}

func (f *field) resetSent() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.order = nil
}

// flying is how many attempts to the destination are in flight.
func (f *field) flying(to string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.inFlight[to])
}

// end ends the oldest attempt to a destination and waits until all that follows from it is done.
func (f *field) end(to string, ok bool, took time.Duration) {
	f.mu.Lock()
	a := f.inFlight[to][0]
	f.inFlight[to] = f.inFlight[to][1:]
	f.mu.Unlock()
	a.end <- dispatch.Report{OK: ok, Took: took}
	synctest.Wait()
}

func (f *field) endAll() {
	f.mu.Lock()
	names := slices.Sorted(maps.Keys(f.inFlight))
	f.mu.Unlock()
	for _, to := range names {
		for f.flying(to) > 0 {
			f.end(to, true, time.Millisecond)
		}
	}
}

const plenty = 1000

func to(name string) dispatch.Destination {
	if name == "own" {
		return dispatch.Destination{Name: name}
	}
	return dispatch.Destination{Name: name, Limit: plenty}
}

// claim sends as many attempts as the destinations get slots for and returns how many each got.
func (f *field) claim(due ...dispatch.Destination) map[string]int {
	got := map[string]int{}
	for name, permits := range f.Claim(due) {
		for n, p := range permits {
			p.Send(job{name, n})
		}
		got[name] = len(permits)
	}
	synctest.Wait()
	return got
}

// calls makes n attempts to the destination, one after the other.
func (f *field) calls(t *testing.T, d dispatch.Destination, n int, ok bool, took time.Duration) {
	t.Helper()
	for range n {
		p, admitted := f.Admit(d)
		if !admitted {
			t.Fatalf("%s is not admitted", d.Name)
		}
		p.Send(job{to: d.Name})
		synctest.Wait()
		f.end(d.Name, ok, took)
	}
}

// inBubble runs a test in which time only passes when everything waits.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

func TestLimits_of_one_worker(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*testing.T, *field)
		due     []dispatch.Destination
		want    map[string]int
	}{
		"one that is not known yet gets a quarter": {due: []dispatch.Destination{to("a")}, want: map[string]int{"a": 4}},
		"a slow one gets a quarter": {
			func(t *testing.T, f *field) { f.calls(t, to("a"), 1, true, time.Second) },
			[]dispatch.Destination{to("a")}, map[string]int{"a": 4},
		},
		"a fast one gets half": {
			func(t *testing.T, f *field) { f.calls(t, to("a"), 1, true, time.Millisecond) },
			[]dispatch.Destination{to("a")}, map[string]int{"a": 8},
		},
		"one without a limit gets all": {due: []dispatch.Destination{to("own")}, want: map[string]int{"own": 16}},
		"a quarter of its own limit while unknown": {due: []dispatch.Destination{{Name: "a", Limit: 8}},
			want: map[string]int{"a": 2}},
		"its own limit while fast": {
			func(t *testing.T, f *field) { f.calls(t, to("a"), 1, true, time.Millisecond) },
			[]dispatch.Destination{{Name: "a", Limit: 3}}, map[string]int{"a": 3},
		},
		"a limit of one is one": {due: []dispatch.Destination{{Name: "a", Limit: 1}}, want: map[string]int{"a": 1}},
		"what former owners have in flight counts": {
			func(t *testing.T, f *field) {
				f.calls(t, to("a"), 1, true, time.Millisecond)
				f.Own(everything, map[string]int{"a": 5})
			},
			[]dispatch.Destination{{Name: "a", Limit: 7}}, map[string]int{"a": 2},
		},
		"also when that is all": {
			func(_ *testing.T, f *field) { f.Own(everything, map[string]int{"a": 9}) },
			[]dispatch.Destination{{Name: "a", Limit: 7}}, map[string]int{},
		},
		"one that failed four times is not ill": {
			func(t *testing.T, f *field) { f.calls(t, to("a"), 4, false, time.Second) },
			[]dispatch.Destination{to("a")}, map[string]int{"a": 4},
		},
		"stored failures count for one that is not known": {
			due: []dispatch.Destination{{Name: "a", Limit: plenty, Failures: 5}}, want: map[string]int{},
		},
		"all get one when many have work": {
			due:  []dispatch.Destination{to("a"), to("b"), to("c"), to("d"), to("e")},
			want: map[string]int{"a": 4, "b": 3, "c": 3, "d": 3, "e": 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newField(t, 16)
				if c.prepare != nil {
					c.prepare(t, f)
				}
				got := f.claim(c.due...)
				if name == "all get one when many have work" { // who begins is a matter of turns
					for _, d := range c.due {
						if n := got[d.Name]; n < 3 || n > 4 {
							t.Errorf("%s got %d", d.Name, n)
						}
					}
				} else if !maps.Equal(got, c.want) {
					t.Errorf("got %v, want %v", got, c.want)
				}
			})
		})
	}
}

func everything(string) bool { return true }

func TestSlots_a_destination_with_nothing_in_flight_gets_one_when_all_are_taken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newField(t, 4)
		f.calls(t, to("fast"), 1, true, time.Millisecond)
		if got := f.claim(to("own")); got["own"] != 4 {
			t.Fatalf("got %v", got)
		}
		for i := range 3 {
			if got := f.claim(to(fmt.Sprint("late", i))); len(got) != 1 {
				t.Fatalf("late %d got %v", i, got)
			}
		}
		woken := f.woken
		if got := f.claim(to("one more")); len(got) != 0 {
			t.Errorf("what those that answer fast have left: %v", got)
		}
		if got := f.claim(to("one more"), to("fast")); len(got) != 1 || got["fast"] != 1 {
			t.Errorf("next to one that answers fast: %v", got)
		}
		if got := f.claim(to("one more")); len(got) != 0 {
			t.Errorf("more than twice the slots: %v", got)
		}
		f.end("own", true, time.Millisecond)
		if f.woken == woken {
			t.Error("no wake-up came for the free slot that was refused before")
		}
	})
}

func TestFailing_destination_gets_one_probe_a_second_until_one_succeeds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newField(t, 16)
		f.calls(t, to("a"), dispatch.FailingAt, false, time.Second)
		if !f.streak.Failed() || f.streak.After != dispatch.FailingAt {
			t.Errorf("the streak is %+v", f.streak)
		}
		for range 3 {
			time.Sleep(dispatch.Cooldown - 1)
			if got := f.claim(to("a")); len(got) != 0 {
				t.Fatalf("a probe before the cooldown was over: %v", got)
			}
			time.Sleep(time.Nanosecond)
			if got := f.claim(to("a")); got["a"] != 1 {
				t.Fatalf("%v probes", got)
			}
			if got := f.claim(to("a")); len(got) != 0 {
				t.Fatalf("a second probe at once: %v", got)
			}
			f.end("a", false, time.Second)
		}
		time.Sleep(dispatch.Cooldown)
		f.claim(to("a"))
		f.end("a", true, time.Second)
		if !f.streak.Recovered() {
			t.Errorf("the streak is %+v after a success", f.streak)
		}
		if got := f.claim(to("a")); got["a"] != 4 {
			t.Errorf("one that answers again got %v", got)
		}
	})
}

func TestFailures_that_a_former_owner_counted_are_taken_over_though_the_first_attempt_did_not_know_them(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newField(t, 8)
		if p, ok := f.Admit(to("moved")); ok {
			p.Send(job{"moved", 0})
		}
		synctest.Wait()
		stored := to("moved")
		stored.Failures = dispatch.FailingAt
		if got := f.claim(stored); got["moved"] != 0 {
			t.Errorf("%d attempts besides the one in flight", got["moved"])
		}
		f.end("moved", true, time.Millisecond)
		if got := f.claim(stored); got["moved"] == 0 {
			t.Error("a success that is not stored yet does not count")
		}
	})
}

func TestProbes_take_a_quarter_of_the_slots(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newField(t, 8)
		var due []dispatch.Destination
		for i := range 10 {
			due = append(due, dispatch.Destination{Name: fmt.Sprint("dead", i), Limit: plenty, Failures: dispatch.FailingAt})
		}
		f.claim(due...)
		n := 0
		for range 16 {
			time.Sleep(dispatch.Cooldown / 8)
			n += len(f.claim(due...))
		}
		if n != 2 {
			t.Errorf("%d probes at once", n)
		}
	})
}

func TestProbes_of_one_second_are_a_quarter_of_the_slots_spread_over_it(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newField(t, 32)
		var due []dispatch.Destination
		for i := range 30 {
			due = append(due, dispatch.Destination{Name: fmt.Sprint("dead", i), Limit: plenty, Failures: dispatch.FailingAt})
		}
		f.claim(due...)
		seen := map[string]bool{}
		time.Sleep(dispatch.Cooldown)
		for range 4 * 8 {
			n := 0
			for got := f.claim(due...); len(got) > 0; got = f.claim(due...) {
				for name := range got {
					seen[name] = true
					f.end(name, false, time.Millisecond)
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d probes in an eighth of a second", n)
			}
			if f.Again() == 0 {
				t.Error("the next probe is not asked for")
			}
			time.Sleep(dispatch.Cooldown / 8)
		}
		if len(seen) < 24 {
			t.Errorf("only %d of 30 had a turn", len(seen))
		}
	})
}

func TestProbes_that_succeed_let_the_next_ones_begin_at_once(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newField(t, 8)
		var due []dispatch.Destination
		for i := range 30 {
			due = append(due, dispatch.Destination{Name: fmt.Sprint("up again", i), Limit: 1, Failures: dispatch.FailingAt})
		}
		f.claim(due...)
		time.Sleep(dispatch.Cooldown)
		seen := map[string]bool{}
		for got := f.claim(due...); len(got) > 0; got = f.claim(due...) {
			for name := range got {
				seen[name] = true
				f.end(name, true, time.Millisecond)
				due = slices.DeleteFunc(due, func(to dispatch.Destination) bool { return to.Name == name })
			}
		}
		if len(seen) != 30 {
			t.Errorf("%d of 30 had a turn at once", len(seen))
		}
	})
}

func TestSlow_destinations_begin_spread_over_the_time_that_their_calls_take(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newField(t, 16)
		var due []dispatch.Destination
		for i := range 2*16 - 16/4 {
			due = append(due, to(fmt.Sprint("slow", i)))
		}
		begun := f.claim(due...)
		if len(begun) != len(due) {
			t.Fatalf("%d began while none was known to be slow", len(begun))
		}
		f.claim(due...) // each has more
		time.Sleep(2 * time.Second)
		for name := range begun {
			f.end(name, true, 2*time.Second)
		}
		total := 0
		for range 20 {
			n := len(f.claim(due...))
			if n > 4 {
				t.Errorf("%d calls began at once", n)
			}
			total += n
			time.Sleep(100 * time.Millisecond)
		}
		if total != len(begun) {
			t.Errorf("%d calls in two seconds, want %d", total, len(begun))
		}
	})
}

func TestFast_is_judged_by_the_average_of_the_calls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newField(t, 16)
		fast := func() bool {
			n := f.claim(to("a"))["a"]
			for range n {
				f.mu.Lock()
				a := f.inFlight["a"][0]
				f.inFlight["a"] = f.inFlight["a"][1:]
				f.mu.Unlock()
				close(a.end) // a zero report: it failed
			}
			synctest.Wait()
			f.claim() // nothing waits any more
			return n == 8
		}
		for _, c := range []struct {
			calls int
			took  time.Duration
			fast  bool
		}{{1, 5 * time.Second, false}, {1, 10 * time.Millisecond, true}, {9, 500 * time.Millisecond, false}} {
			f.Own(func(string) bool { return false }, nil) // forgets
			if c.calls > 1 {
				f.calls(t, to("a"), 1, true, 10*time.Millisecond)
			}
			f.calls(t, to("a"), c.calls, true, c.took)
			if got := fast(); got != c.fast {
				t.Errorf("after %d calls of %s: fast %v", c.calls, c.took, got)
			}
		}
		f.Own(func(string) bool { return false }, nil)
		f.calls(t, to("a"), 1, true, 10*time.Millisecond)
		f.calls(t, to("a"), 1, true, 500*time.Millisecond)
		if !fast() {
			t.Error("one slow call among quick ones made it slow")
		}
	})
}

// TestScheduler_keeps_its_limits admits, claims, ends and moves at random and counts along.
func TestScheduler_keeps_its_limits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) { random(t, rt) })
	})
}

func random(t *testing.T, rt *rapid.T) {
	slots := rapid.IntRange(1, 12).Draw(rt, "slots")
	f := newField(t, slots)
	limits := map[string]int{"own": 0, "a": 1, "b": 2, "c": 9, "d": plenty}
	names := slices.Sorted(maps.Keys(limits))
	destination := func(name string) dispatch.Destination { return dispatch.Destination{Name: name, Limit: limits[name]} }
	permits := map[string][]dispatch.Permit[job]{}
	made, ended := 0, 0
	for range rapid.IntRange(0, 120).Draw(rt, "steps") {
		switch to := rapid.SampledFrom(names).Draw(rt, "destination"); rapid.IntRange(0, 8).Draw(rt, "step") {
		case 0, 1, 2:
			if p, ok := f.Admit(destination(to)); ok {
				permits[to] = append(permits[to], p)
			}
		case 3:
			if n := len(permits[to]); n > 0 {
				permits[to][n-1].Cancel()
				permits[to] = permits[to][:n-1]
			}
		case 4, 5:
			for _, p := range permits[to] {
				p.Send(job{to, made})
				made++
			}
			permits[to] = nil
		case 6:
			for to, granted := range f.Claim([]dispatch.Destination{destination(to), destination("own")}) {
				permits[to] = append(permits[to], granted...)
			}
		case 7:
			if f.flying(to) > 0 {
				f.end(to, rapid.Bool().Draw(rt, "ok"), time.Duration(rapid.IntRange(1, 200).Draw(rt, "ms"))*time.Millisecond)
				ended++
			}
		case 8:
			time.Sleep(time.Duration(rapid.IntRange(0, 600).Draw(rt, "pause")) * time.Millisecond)
			f.Own(func(owned string) bool { return owned != to }, map[string]int{to: rapid.IntRange(0, 2).Draw(rt, "elsewhere")})
		}
		synctest.Wait()
		f.check(rt, limits, slots)
	}
	for _, list := range permits {
		for _, p := range list {
			p.Cancel()
		}
	}
	idle := f.Stop()
	synctest.Wait()
	ended += len(f.returned())
	for _, to := range names {
		ended += f.flying(to)
	}
	f.endAll()
	<-idle
	if ended != made || f.InFlight() != 0 {
		rt.Fatalf("%d were made, %d ended or went back, %d are in flight", made, ended, f.InFlight())
	}
}

func (f *field) check(rt *rapid.T, limits map[string]int, slots int) {
	total := 0
	for to := range limits {
		n := f.flying(to)
		if limits[to] > 0 && n > limits[to] || to == "own" && n > 2*slots {
			rt.Fatalf("%d attempts to %s", n, to)
		}
		total += n
	}
	if n := f.InFlight(); total > n || n > 2*slots {
		rt.Fatalf("%d attempts, %d counted, for %d slots", total, n, slots)
	}
}
