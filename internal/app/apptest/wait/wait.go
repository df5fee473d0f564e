// Package wait waits, in tests, for what happens by itself.
package wait

import (
	"testing"
	"time"
)

// Limit is how long a test waits before it fails: longer than a busy machine takes for anything.
const Limit = 2 * time.Minute

const (
	firstPause = 5 * time.Millisecond
	mostPause  = 300 * time.Millisecond
)

// Until waits until the condition holds, and fails the test when it does not.
func Until(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	if !Within(Limit, condition) {
		tb.Fatalf("not within %v: %s", Limit, what)
	}
}

// Within waits until the condition holds and reports whether it did within the limit. The longer it takes, the less
// often it looks: many conditions are calls or commands, and all tests share the machine.
func Within(limit time.Duration, condition func() bool) bool {
	end := time.Now().Add(limit)
	for pause := firstPause; !condition(); pause = min(pause*5/4, mostPause) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
