//go:build !unix

package app

// ownerOnly has no meaning where files have no modes.
func ownerOnly() {}

// notStopped has no meaning where a terminal stops nothing.
func notStopped() {}
