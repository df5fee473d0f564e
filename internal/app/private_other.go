//go:build !unix

package app

// ownerOnly has no meaning where files have no modes.
func ownerOnly() {}
