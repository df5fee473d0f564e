package database

import (
	"testing"
	"time"
)

func TestClock_follows_the_database_and_never_goes_back(t *testing.T) {
	t.Parallel()
	local := time.Date(2026, 11, 22, 12, 10, 0, 0, time.UTC) // ten minutes ahead
	db := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	c := clock{local: func() time.Time { return local }}
	c.set(local, db, time.Millisecond)
	if got := c.now(); !got.Equal(db) {
		t.Fatalf("now is %s, the database's is %s", got, db)
	}
	local = local.Add(3 * time.Second)
	if got := c.now(); !got.Equal(db.Add(3 * time.Second)) {
		t.Fatalf("three seconds later it is %s", got)
	}
	c.set(local, db.Add(time.Second), time.Millisecond) // the database's clock was set back
	if got := c.now(); !got.Equal(db.Add(3 * time.Second)) {
		t.Fatalf("after a step back it is %s: it must stay", got)
	}
	local = local.Add(5 * time.Second)
	if got := c.now(); !got.Equal(db.Add(6 * time.Second)) {
		t.Fatalf("when the database is past that it is %s", got)
	}
}

func TestClock_keeps_the_better_of_two_measurements_that_agree(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	local := start
	c := clock{local: func() time.Time { return local }}
	c.set(start, start, time.Millisecond)
	c.set(start, start.Add(80*time.Millisecond), 100*time.Millisecond) // a slow answer
	if got := c.now(); !got.Equal(start) {
		t.Errorf("a slow answer moved it by %s", got.Sub(start))
	}
	c.set(start, start.Add(time.Minute), 100*time.Millisecond) // another primary, whose clock is another one
	if got := c.now(); !got.Equal(start.Add(time.Minute)) {
		t.Errorf("after a step of the database's clock it is off by %s", got.Sub(start.Add(time.Minute)))
	}
}
