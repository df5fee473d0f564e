//go:build unix

package app

import "syscall"

// ownerOnly lets every file that this process makes from now on be read by its owner alone: SQLite and JetStream would
// make DATA_DIR's readable by others.
func ownerOnly() { syscall.Umask(0o077) }
