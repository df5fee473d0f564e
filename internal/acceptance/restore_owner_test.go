//go:build unix

package acceptance

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Root restores, and the service runs as another user: the directory's owner reads what is in it.
func TestRestore_as_root_gives_the_files_to_the_owner_of_the_directory(t *testing.T) {
	t.Parallel()
	const user = 65534
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	_, whole := aBackup(t)
	file, dir := filepath.Join(t.TempDir(), "one.tar"), t.TempDir()
	if err := errors.Join(os.WriteFile(file, whole, 0o600), os.Chown(dir, user, user)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"restore", file}, {"verify"}} {
		if out, errOut, code := runIn(t, t.TempDir(), "api", []string{"DATA_DIR=" + dir}, args...); code != 0 {
			t.Fatalf("%v: exit code %d: %s%s", args, code, out, errOut)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 2 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != user || stat.Gid != user {
			t.Errorf("%s belongs to %+v", e.Name(), info.Sys())
		}
	}
}
