package webhooks

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPublic_addresses(t *testing.T) {
	t.Parallel()
	for text, public := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "172.15.255.255": true, "172.32.0.0": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true,
		"0.0.0.0": false, "10.1.2.3": false, "100.64.0.1": false, "127.0.0.1": false, "127.255.255.254": false, "169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.168.1.1": false, "192.0.0.8": false, "198.18.0.1": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false, "192.88.99.1": false,
		"::1": false, "::": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "64:ff9b::7f00:1": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd00::1": false,
		"ff02::1": false, "2002:7f00:1::": false, "2001:0:1::1": false, "2001:db8::1": false, "fec0::1": false,
	} {
		if got := isPublic(netip.MustParseAddr(text)); got != public {
			t.Errorf("%s: public %v", text, got)
		}
	}
	if isPublic(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestDialer_judges_the_resolved_address(t *testing.T) {
	t.Parallel()
	control := guardedDialer(false).Control
	for address, refused := range map[string]bool{"8.8.8.8:443": false, "127.0.0.1:80": true, "[::ffff:127.0.0.1]:80": true, "[::1]:80": true, "2130706433:80": true, "nonsense": true} {
		if err := control("tcp", address, nil); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	if guardedDialer(true).Control != nil {
		t.Error("private addresses are refused although allowed")
	}
}

func TestSchedule_waits_within_its_jitter(t *testing.T) {
	t.Parallel()
	s := schedule{5 * time.Second, time.Minute}
	now := time.Unix(1_795_000_000, 0)
	rapid.Check(t, func(rt *rapid.T) {
		series := rapid.Int64Range(1, 2).Draw(rt, "attempt")
		o := s.outcome(answer{status: 500}, series, now, rapid.Float64Range(0, 0.999).Draw(rt, "random"))
		step := s[series-1]
		if wait := o.Next.Sub(now); o.Status != Pending || wait < step*8/10 || wait > step*12/10 {
			rt.Fatalf("attempt %d: %s after %s", series, o.Status, wait)
		}
	})
	if o := s.outcome(answer{status: 500}, 3, now, 0); o.Status != Dead {
		t.Errorf("after the last attempt: %s", o.Status)
	}
}

func TestRetryAfter_forms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "3601": time.Hour, "99999999999999999999": time.Hour, "-5": 0, "1.5": 0, "soon": 0,
		"Sat, 21 Nov 2026 12:00:30 GMT": 30 * time.Second, "Sat, 21 Nov 2026 11:00:00 GMT": 0, "Sun, 21 Nov 2027 11:00:00 GMT": time.Hour,
	} {
		if got := parseRetryAfter(text, now, time.Hour); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Sat, 21 Nov 2026 12:00:30 GMT")
	f.Fuzz(func(t *testing.T, text string) {
		if got := parseRetryAfter(text, time.Unix(1_795_000_000, 0), time.Hour); got < 0 || got > time.Hour {
			t.Fatalf("%q: %s", text, got)
		}
	})
}

// TestSlots_never_exceed_their_limits takes and gives back at random and counts beside it.
func TestSlots_never_exceed_their_limits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(rt, "limit")
		taken := map[string]int{}
		total, dropped := 0, make(chan []job, 1000)
		s := newSlots(limit, time.Now, func() {}, func(j job) {
			taken[j.destination]++
			total++
		}, func(jobs []job) { dropped <- jobs })
		s.start()
		var placed []string
		names := []string{Own, "a", "b", "c", "d"}
		name := func(rt *rapid.T) string { return rapid.SampledFrom(names).Draw(rt, "destination") }
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				if s.inFlight() != total || total > 2*limit {
					rt.Fatalf("%d in flight, counted %d, limit %d", s.inFlight(), total, limit)
				}
				if ahead := len(placed) + len(s.line.jobs); s.line.placed != len(placed) || ahead > 2*lineLength*limit {
					rt.Fatalf("%d places and %d in line, counted %d, limit %d", s.line.placed, len(s.line.jobs), len(placed), limit)
				}
			},
			"new": func(rt *rapid.T) {
				switch d := name(rt); s.takeNew(d) {
				case slot:
					taken[d]++
					total++
				case place:
					placed = append(placed, d)
				}
			},
			"enter": func(*rapid.T) {
				if len(placed) > 0 {
					s.enter(job{destination: placed[0]})
					placed = placed[1:]
				}
			},
			"leave": func(*rapid.T) {
				if len(placed) > 0 {
					s.leave(placed[0])
					placed = placed[1:]
				}
			},
			"share": func(rt *rapid.T) {
				for d, n := range s.share(rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, len(names), rapid.ID).Draw(rt, "due")) {
					taken[d] += n
					total += n
				}
			},
			"end": func(rt *rapid.T) {
				d := name(rt)
				if taken[d] == 0 {
					return
				}
				s.report(d, rapid.Bool().Draw(rt, "answered"), time.Duration(rapid.IntRange(0, 200).Draw(rt, "ms"))*time.Millisecond)
				s.giveBack(d)
				taken[d]--
				total--
			},
		})
		if len(placed) > 0 {
			s.enter(job{destination: placed[0]})
			placed = placed[1:]
		}
		for total > 0 { // those who stand in line come after
			for d, n := range taken {
				for range n {
					taken[d]--
					total--
					s.giveBack(d)
				}
			}
		}
		<-s.stop()
		for _, d := range placed { // their transactions are over only now
			s.enter(job{destination: d, number: 1})
		}
		for late := len(placed); late > 0; {
			for _, j := range <-dropped {
				late -= int(j.number)
			}
		}
		if s.takeNew("late") != nothing || s.inFlight() != 0 {
			rt.Fatal("a slot was taken after the stop")
		}
		if len(s.lanes) > 0 && slices.ContainsFunc(slices.Collect(maps.Values(s.lanes)), func(l *lane) bool { return l.idle() && !l.fast() || l.lined != 0 }) {
			rt.Fatalf("lanes are left: %v", s.lanes)
		}
	})
}

func TestSlots_share_a_quarter_until_a_receiver_is_fast(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	s := newSlots(16, func() time.Time { return now }, func() {}, nil, nil)
	s.start()
	if got := s.share([]string{"slow"}); got["slow"] != 4 {
		t.Fatalf("an unknown receiver got %d of 16", got["slow"])
	}
	s.report("slow", true, time.Millisecond)
	s.giveBack("slow")
	if got := s.share([]string{"slow"}); got["slow"] != 5 {
		t.Fatalf("a fast one got %d more", got["slow"])
	}
	if got := s.share([]string{"slow", "other"}); got["other"] != 4 || got["slow"] != 0 {
		t.Fatalf("with half of the slots taken by another: %v", got)
	}
	for range breakerAt {
		s.report("other", false, time.Second)
	}
	for range 4 {
		s.giveBack("other")
	}
	for _, pause := range []time.Duration{firstPause, 2 * firstPause, 4 * firstPause, 8 * firstPause, longestPause, longestPause} {
		now = now.Add(pause - 1)
		if got := s.share([]string{"other"}); got["other"] != 0 {
			t.Fatalf("a failing one got a probe before its pause of %s was over", pause)
		}
		now = now.Add(1)
		if got := s.share([]string{"other"}); got["other"] != 1 {
			t.Fatalf("a failing one got %d probes after %s", got["other"], pause)
		}
		if got := s.share([]string{"other"}); got["other"] != 0 {
			t.Fatalf("a failing one got %d probes more", got["other"])
		}
		s.report("other", false, time.Second)
		s.giveBack("other")
	}
	for range 8 {
		s.giveBack("slow")
	}
	now = now.Add(longestPause)
	if got := s.share([]string{"other"}); got["other"] != 1 {
		t.Fatal("no probe")
	}
	s.report("other", true, time.Second)
	s.giveBack("other")
	if got := s.share([]string{"other"}); got["other"] != 4 {
		t.Fatalf("one that answers again got %d of 16", got["other"])
	}
}

func TestSlots_take_a_receiver_for_fast_by_the_average_of_its_calls(t *testing.T) {
	t.Parallel()
	s := newSlots(16, time.Now, func() {}, nil, nil)
	s.start()
	fast := func(destination string) bool { return s.lane(destination).fast() }
	s.report("acme", true, 5*time.Second)
	if fast("acme") {
		t.Error("one whose first answer took 5 s is fast")
	}
	s.report("globex", true, 10*time.Millisecond)
	s.report("globex", true, 500*time.Millisecond)
	if !fast("globex") {
		t.Error("one slow call among quick ones made it slow")
	}
	for range averaged {
		s.report("globex", true, 500*time.Millisecond)
	}
	if fast("globex") {
		t.Error("one that always takes 500 ms is fast")
	}
	s.report("globex", false, time.Millisecond)
	s.report("globex", true, 10*time.Millisecond)
	if !fast("globex") {
		t.Error("one that answers again is not judged by its answer")
	}
}

func TestLine_drops_all_of_a_destination_that_no_longer_answers_at_once(t *testing.T) {
	t.Parallel()
	started, dropped := map[string]int{}, make(chan []job, 20)
	s := newSlots(2, time.Now, func() {}, func(j job) { started[j.destination]++ }, func(jobs []job) { dropped <- jobs })
	s.start()
	for _, d := range []string{"acme", Own} {
		s.report(d, true, time.Millisecond)
		if s.takeNew(d) != slot {
			t.Fatalf("%s gets no slot", d)
		}
	}
	const each = 5
	for range each {
		for _, d := range []string{"acme", Own} {
			if s.takeNew(d) != place {
				t.Fatalf("%s gets no place in line", d)
			}
			s.enter(job{destination: d})
		}
	}
	s.report("acme", false, time.Second)
	s.giveBack("acme")
	if gone := <-dropped; len(gone) != each || len(s.line.jobs) != each-1 || started[Own] != 1 {
		t.Errorf("%d went back together, %d are in line, %v were begun", len(gone), len(s.line.jobs), started)
	}
	select {
	case more := <-dropped:
		t.Errorf("%d went back later", len(more))
	default:
	}
	for range 2 {
		s.giveBack(Own)
	}
}
