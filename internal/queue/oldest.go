package queue

import "fmt"

// OldestNATS is the oldest server that the service is tested with.
const OldestNATS = "2.10"

// Untested reports whether a version of NATS is older than that.
func Untested(version string) bool {
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return err == nil && (major < 2 || major == 2 && minor < 10)
}
