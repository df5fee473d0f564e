//go:build unix

package acceptance

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Root restores and migrates, and the service runs as another user: the directory's owner reads and writes what is in
// it.
func TestCommands_as_root_give_what_they_make_to_the_owner_of_the_directory(t *testing.T) {
	t.Parallel()
	const user = 65534
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	_, whole := aBackup(t)
	file := filepath.Join(t.TempDir(), "one.tar")
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		commands [][]string
	}{
		{"a restore", [][]string{{"restore", file}, {"verify"}}},
		{"a migration", [][]string{{"migrate"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Chown(dir, user, user); err != nil {
				t.Fatal(err)
			}
			for _, args := range test.commands {
				if out, errOut, code := runIn(t, t.TempDir(), "api", []string{"DATA_DIR=" + dir}, args...); code != 0 {
					t.Fatalf("%v: exit code %d: %s%s", args, code, out, errOut)
				}
			}
			files := 0
			err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := e.Info()
				if err != nil {
					return err
				}
				if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != user || stat.Gid != user {
					t.Errorf("%s belongs to %+v", path, info.Sys())
				}
				files++
				return nil
			})
			if err != nil || files < 3 {
				t.Error(errors.Join(err, errors.New("the directory is as good as empty")))
			}
		})
	}
}
