//go:build unix

package app

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// ownerOnly lets every file that this process makes from now on be read by its owner alone: SQLite and JetStream would
// make DATA_DIR's readable by others.
func ownerOnly() { syscall.Umask(0o077) }

// notStopped has Ctrl-Z do nothing. A command that is stopped in the middle of a change would keep SQLite's only lock
// for writing, and the service would take no change until the command goes on. Ctrl-C ends it.
func notStopped() { signal.Ignore(syscall.SIGTSTP) }

// ownAs makes the owner of a directory own a file that root made: the service that runs on it may be another user.
func ownAs(dir, file string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var owner syscall.Stat_t
	if err := syscall.Stat(dir, &owner); err != nil {
		return fmt.Errorf("find the owner of %s: %w", dir, err)
	}
	return os.Chown(file, int(owner.Uid), int(owner.Gid))
}
