//go:build !skewedclock

package database

import "time"

// machineTime returns the machine's own clock.
func machineTime() time.Time { return time.Now() }
