package queue

import (
	"fmt"
	"slices"
)

// OldestNATS is the oldest server that the service is tested with.
const OldestNATS = "2.10"

// Untested reports whether a version of NATS is older than that.
func Untested(version string) bool {
	var of, oldest [2]int
	_, _ = fmt.Sscanf(OldestNATS, "%d.%d", &oldest[0], &oldest[1]) // it is ours
	_, err := fmt.Sscanf(version, "%d.%d", &of[0], &of[1])
	return err == nil && slices.Compare(of[:], oldest[:]) < 0
}
