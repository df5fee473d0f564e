package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

const axeVersion = "4.14.1"

// findOrInstall is the path of Chromium; where we may, on Debian and Ubuntu as root, it is installed.
var findOrInstall = sync.OnceValues(func() (string, error) {
	path, err := find()
	if err == nil || os.Geteuid() != 0 {
		return path, err
	}
	apt, lookErr := exec.LookPath("apt-get")
	if lookErr != nil {
		return "", err
	}
	fmt.Fprintln(os.Stderr, "no Chromium found, installing it with apt-get")
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", "chromium"}} {
		cmd := exec.Command(apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, runErr := cmd.CombinedOutput(); runErr != nil {
			return "", fmt.Errorf("%w; apt-get %s: %w\n%s", err, args[0], runErr, out)
		}
	}
	return find()
})

func find() (path string, err error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find Chromium (Debian: apt-get install chromium): %w", err)
}

// axe is the accessibility checker's script, fetched from the npm registry once and kept under bin/test.
var axe = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(file), "..", "..", "..", "..", "bin", "test", "axe-"+axeVersion)
	script := filepath.Join(dir, "package", "axe.min.js")
	if content, err := os.ReadFile(script); err == nil {
		return string(content), nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, command := range [][]string{{"npm", "pack", "--silent", "axe-core@" + axeVersion},
		{"tar", "-xzf", "axe-core-" + axeVersion + ".tgz", "package/axe.min.js"}} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("fetch axe-core by npm: %w\n%s", err, out)
		}
	}
	content, err := os.ReadFile(script)
	return string(content), err
})
