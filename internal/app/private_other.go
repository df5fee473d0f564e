//go:build !unix

package app

// ownerOnly has no meaning where files have no modes.
func ownerOnly() {}

// notStopped has no meaning where a terminal stops nothing.
func notStopped() {}

// ownAs has no meaning where root is no user.
func ownAs(string, string) error { return nil }
