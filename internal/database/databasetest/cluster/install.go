//go:build unix

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

var errNoServer = errors.New("no PostgreSQL server binaries found: install them " +
	"(Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17)")

// findOrInstall returns the directory of the server's binaries; where we may, on Debian and Ubuntu as root, they are
// installed.
func findOrInstall() (string, error) {
	dir, err := binaries()
	if !errors.Is(err, errNoServer) || os.Geteuid() != 0 {
		return dir, err
	}
	fmt.Fprintln(os.Stderr, "no PostgreSQL server binaries found, installing them with apt-get")
	if installErr := install("postgresql"); installErr != nil {
		return "", fmt.Errorf("%w; %w", err, installErr)
	}
	return binaries()
}

// install installs a Debian package.
func install(name string) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", name}} {
		cmd := exec.Command(apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr // standard output carries the server's address
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	return nil
}
