package queue

import "fmt"

// OldestNATS is the oldest server that the service is tested with.
const OldestNATS = "2.10"

// Untested reports whether a version of NATS is older than that.
func Untested(version string) bool {
	have, haveErr := release(version)
	oldest, _ := release(OldestNATS)
	return haveErr == nil && have < oldest
}

// release returns a version's first two numbers as one that can be compared.
func release(version string) (int, error) {
	const below = 1000
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return 0, fmt.Errorf("read the version %q: %w", version, err)
	}
	return major*below + minor, nil
}
