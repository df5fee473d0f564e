//go:build race

package bodytest

// timesItsSize bounds what a body may allocate; the race detector's own bookkeeping comes on top.
const timesItsSize = 3 * allowed
