//go:build skewedclock

package database

import (
	"os"
	"time"
)

// machineTime returns a clock that is wrong by what SUPPLYHUB_TEST_CLOCK says, in builds for tests alone.
func machineTime() time.Time {
	skew, _ := time.ParseDuration(os.Getenv("SUPPLYHUB_TEST_CLOCK"))
	return time.Now().Add(skew)
}
