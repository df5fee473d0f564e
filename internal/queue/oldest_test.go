package queue_test

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/queue"
)

func TestUntested_is_a_server_that_is_older_than_promised(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"2.9.25": true, "1.4.1": true, "2.10.0": false, "2.10.29": false,
		"2.15.2": false, "2.12.0-RC.1": false, "3.0.0": false, "": false} {
		if got := queue.Untested(version); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}
