//go:build !skewedclock

package database

import "time"

// machineTime returns what the machine's own clock says, without its monotonic part.
func machineTime() time.Time { return time.Now().Round(0).UTC() }
