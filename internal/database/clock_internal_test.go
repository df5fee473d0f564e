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
	c.set(local, db)
	if got := c.now(); !got.Equal(db) {
		t.Fatalf("now is %s, the database's is %s", got, db)
	}
	local = local.Add(3 * time.Second)
	if got := c.now(); !got.Equal(db.Add(3 * time.Second)) {
		t.Fatalf("three seconds later it is %s", got)
	}
	c.set(local, db.Add(time.Second)) // the database's clock was set back
	if got := c.now(); !got.Equal(db.Add(3 * time.Second)) {
		t.Fatalf("after a step back it is %s: it must stay", got)
	}
	local = local.Add(5 * time.Second)
	if got := c.now(); !got.Equal(db.Add(6 * time.Second)) {
		t.Fatalf("when the database is past that it is %s", got)
	}
}
