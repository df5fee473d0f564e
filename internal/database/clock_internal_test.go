package database

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// machine is a process's local clock and the clock that it follows.
type machine struct {
	Clock
	at time.Time
}

func newMachine() *machine {
	m := &machine{at: time.Date(2026, 11, 22, 12, 10, 0, 0, time.UTC)} // ten minutes ahead
	m.Clock = Clock{local: func() time.Time { return m.at }}
	return m
}

func TestClock_follows_the_database_within_a_second_both_ways_and_waits_out_a_small_step_back(t *testing.T) {
	t.Parallel()
	const off = time.Millisecond
	type measured struct {
		after, ahead, off time.Duration // since the measurement before, of the database's clock before the first one's
		now               time.Duration // what the clock shows then, next to the database's first clock
		doubt             bool
		jumps             int64
	}
	for name, steps := range map[string][]measured{
		"a steady clock": {{after: time.Second, off: off}, {after: time.Second, off: off}},
		"a step ahead that is small is taken at once": {
			{after: time.Second, ahead: 800 * time.Millisecond, off: off, now: 800 * time.Millisecond},
		},
		"a small step back is waited out": {
			{after: time.Second, ahead: -900 * time.Millisecond, off: off}, // as far as it had come a second ago: see below
			{after: time.Second, ahead: -900 * time.Millisecond, off: off, now: -900 * time.Millisecond},
		},
		"ten minutes ahead, when a second measurement says so": {
			{after: time.Second, ahead: 10 * time.Minute, off: off, doubt: true},
			{after: clockAgain, ahead: 10 * time.Minute, off: off, now: 10 * time.Minute, jumps: 1},
		},
		"ten minutes back, when a second measurement says so": {
			{after: time.Second, ahead: -10 * time.Minute, off: off, doubt: true},
			{after: clockAgain, ahead: -10 * time.Minute, off: off, now: -10 * time.Minute, jumps: 1},
		},
		"there and back": {
			{after: time.Second, ahead: time.Hour, off: off, doubt: true},
			{after: clockAgain, ahead: time.Hour, off: off, now: time.Hour, jumps: 1},
			{after: 5 * time.Second, off: off, now: time.Hour, doubt: true, jumps: 1},
			{after: clockAgain, off: off, jumps: 2},
		},
		"one wrong answer": {
			{after: time.Second, ahead: time.Hour, off: off, doubt: true},
			{after: clockAgain, off: off},
			{after: time.Second, ahead: -time.Hour, off: off, doubt: true},
			{after: clockAgain, ahead: time.Hour, off: off, doubt: true},
			{after: clockAgain, off: off},
		},
		"a slow answer that agrees moves nothing": {
			{after: time.Second, ahead: 80 * time.Millisecond, off: 100 * time.Millisecond},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			db := m.at.Add(-10 * time.Minute)
			m.set(measurement{m.at, db, off})
			for i, s := range steps {
				m.at, db = m.at.Add(s.after), db.Add(s.after)
				m.Now()
				if _, doubt := m.set(measurement{m.at, db.Add(s.ahead), s.off}); doubt != s.doubt || m.jumps != s.jumps {
					t.Errorf("measurement %d: doubt %t, %d jumps", i+1, doubt, m.jumps)
				}
				if got := m.Now().Sub(db); got != s.now {
					t.Errorf("after measurement %d it is %s next to the first clock, want %s", i+1, got, s.now)
				}
			}
		})
	}
}

func TestClock_that_jumps_knows_the_other_time_for_some_seconds_and_how_far_it_has_been(t *testing.T) {
	t.Parallel()
	m := newMachine()
	start := m.at
	m.set(measurement{at: start, base: start})
	m.at = m.at.Add(time.Minute)
	before, after := m.at, m.at.Add(-time.Hour)
	if other, jumping := m.elsewhere(); jumping {
		t.Errorf("a clock that goes well has another time, %s", other)
	}
	for _, want := range []time.Time{after, before} { // it seems to jump, it has jumped
		m.set(measurement{at: m.at, base: after})
		if other, jumping := m.elsewhere(); !jumping || !other.Equal(want) {
			t.Errorf("the other time is %s, want %s", other, want)
		}
	}
	if got := m.Now(); !got.Equal(after) || !m.latest.Equal(before) {
		t.Errorf("it is %s and was %s", got, m.latest)
	}
	m.at = m.at.Add(clockRecent)
	if other, jumping := m.elsewhere(); jumping {
		t.Errorf("it jumps for ever, with %s", other)
	}
}

func TestClock_that_was_never_measured_is_not_known_and_a_late_answer_makes_it_known(t *testing.T) {
	t.Parallel()
	for late, known := range map[int]bool{0: true, clockTries: true, clockTries + 3: false} {
		m := newMachine()
		answers := -late
		m.log = slog.New(slog.DiscardHandler)
		m.read = func(context.Context) (measurement, error) {
			if answers++; answers <= 0 {
				return measurement{}, errors.New("no answer in time")
			}
			return measurement{at: m.at, base: m.at.Add(-time.Hour)}, nil
		}
		for range 3 { // as newClock does
			if _, answered := m.measure(t.Context()); !answered {
				break
			}
		}
		if err := m.Known(t.Context()); (err == nil) != known {
			t.Errorf("after %d calls without an answer: %v", late, err)
		}
		if ahead := m.Now().Sub(m.at); known && ahead != -time.Hour {
			t.Errorf("after %d calls without an answer it is %v ahead of the machine's", late, ahead)
		}
	}
}
