//go:build !unix

package app

import "github.com/supplyhub/supplyhub/internal/config"

// ownerOnly has no meaning where files have no modes.
func ownerOnly() {}

// notStopped has no meaning where a terminal stops nothing.
func notStopped() {}

// giveAway has no meaning where root is no user.
func giveAway(*config.Config) error { return nil }
