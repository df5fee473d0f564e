//go:build !race

package bodytest

// timesItsSize bounds what a body may allocate.
const timesItsSize = allowed
