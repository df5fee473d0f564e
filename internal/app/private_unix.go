//go:build unix

package app

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/supplyhub/supplyhub/internal/config"
)

// ownerOnly lets every file that this process makes from now on be read by its owner alone: SQLite and JetStream would
// make DATA_DIR's readable by others.
func ownerOnly() { syscall.Umask(0o077) }

// notStopped has Ctrl-Z do nothing. A command that is stopped in the middle of a change would keep SQLite's only lock
// for writing, and the service would take no change until the command goes on. Ctrl-C ends it.
func notStopped() { signal.Ignore(syscall.SIGTSTP) }

// giveAway makes the owner of DATA_DIR own the files in it that root made: the service may be another user.
func giveAway(cfg *config.Config) error {
	if os.Geteuid() != 0 || cfg.DatabaseURL != "" {
		return nil
	}
	var owner syscall.Stat_t
	if err := syscall.Stat(cfg.DataDir, &owner); err != nil {
		return fmt.Errorf("find the owner of DATA_DIR: %w", err)
	}
	files, err := os.ReadDir(cfg.DataDir)
	for _, file := range files {
		if file.Type().IsRegular() { // lost+found stays as it is; a link of the owner's is not followed
			err = errors.Join(err, os.Lchown(filepath.Join(cfg.DataDir, file.Name()), int(owner.Uid), int(owner.Gid)))
		}
	}
	return err
}
