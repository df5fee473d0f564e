package deliveries

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSchedule_waits_within_its_jitter(t *testing.T) {
	t.Parallel()
	s := Schedule{5 * time.Second, time.Minute}
	now := time.Unix(1_795_000_000, 0)
	rapid.Check(t, func(rt *rapid.T) {
		series := rapid.Int64Range(1, 2).Draw(rt, "attempt")
		o := s.Outcome("acme", Answer{Status: 500}, series, now, rapid.Float64Range(0, 0.999).Draw(rt, "random"))
		step := s[series-1]
		if wait := o.Next.Sub(now); o.Status != Pending || wait < step*8/10 || wait > step*12/10 {
			rt.Fatalf("attempt %d: %s after %s", series, o.Status, wait)
		}
	})
	if o := s.Outcome("acme", Answer{Status: 500}, 3, now, 0); o.Status != Dead {
		t.Errorf("after the last attempt: %s", o.Status)
	}
}

func TestAnswers_of_receivers_are_final_only_with_2xx_and_410(t *testing.T) {
	t.Parallel()
	for status := 100; status < 600; status++ {
		receiver, own := Pending, Pending
		switch {
		case status/100 == 2:
			receiver, own = Delivered, Delivered
		case status == 410:
			receiver, own = Failed, Failed
		case status == 408 || status == 425 || status == 429:
		case status/100 == 3 || status/100 == 4:
			own = Failed
		}
		if got := Classify("acme", Answer{Status: status}); got != receiver {
			t.Errorf("%d of a receiver: %s, want %s", status, got, receiver)
		}
		if got := Classify(OwnEndpoint, Answer{Status: status}); got != own {
			t.Errorf("%d of the own endpoint: %s, want %s", status, got, own)
		}
	}
	if got := Classify(OwnEndpoint, Answer{Err: errors.New("refused")}); got != Pending {
		t.Errorf("no answer: %s", got)
	}
}

// The document's moments begin with the year 1, whose first one is Go's zero time.
func TestSentFilter_takes_the_first_moment_of_all(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{"0001-01-01T00:00:00Z": true, "9999-12-31T23:59:59Z": true,
		"0000-12-31T23:59:59Z": false, "0001-01-01T00:00:00+01:00": false} {
		filter, _, violations := ParseSentFilter(url.Values{"since": {text}, "until": {text}})
		if wrong := len(violations) > 0; wrong == good || good && filter.Until.IsZero() {
			t.Errorf("%s: %+v, %v", text, filter, violations)
		}
		recovery := Recovery{Status: new("dead"), Since: &text}
		if violations := recovery.Validate(); len(violations) > 0 == good {
			t.Errorf("a recovery since %s: %v", text, violations)
		}
	}
}

func TestRetryAfter_forms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "3601": time.Hour, "99999999999999999999": time.Hour,
		"-5": 0, "1.5": 0, "soon": 0,
		"Sat, 21 Nov 2026 12:00:30 GMT": 30 * time.Second, "Sat, 21 Nov 2026 11:00:00 GMT": 0,
		"Sun, 21 Nov 2027 11:00:00 GMT": time.Hour,
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
