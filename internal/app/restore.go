package app

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// A restore is all or nothing. Everything is unpacked into a directory of its own inside DATA_DIR, where no service
// starts while that directory is there; digests and database are checked; then each file is given its place, the
// database last. A restore that breaks off, or is stopped, leaves the directory behind: DATA_DIR is refused until the
// restore is made again, which first removes what is left.

const (
	restoring  = ".restore" // in DATA_DIR: files not in their places yet
	keyLongest = 1 << 20    // bytes of a file that is no database
)

var errNoBackup = errors.New("it is no backup of `api backup`, or not all of one")

// Restored is what a backup has brought back.
type Restored struct {
	DataDir   string    `json:"data_dir"`
	CreatedAt time.Time `json:"created_at"` // of the backup
	Version   string    `json:"version"`    // which made it
	Holds     []string  `json:"holds"`
}

// Restore puts a backup into an empty DATA_DIR, or one where a restore broke off. It reads and checks all of it before
// the first file gets its name, and the database gets its name last.
func Restore(ctx context.Context, cfg *config.Config, log *slog.Logger, file string) (r Restored, err error) {
	if cfg.DatabaseURL != "" {
		return r, errNoCopy
	}
	from, err := os.Open(file)
	if err != nil {
		return r, fmt.Errorf("read the backup: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	names := append(keyFiles(), filepath.Base(cfg.SQLitePath()))
	staged, lock, err := stageRestore(cfg.DataDir, names)
	if err != nil {
		return r, err
	}
	placing := false
	defer func() {
		err = errors.Join(err, lock.Close())
		if err == nil || !placing && ctx.Err() == nil { // else it is a restore that broke off
			err = errors.Join(err, os.RemoveAll(staged), syncDir(cfg.DataDir))
		}
	}()
	u := unpacking{r: tar.NewReader(from), dir: staged, names: names}
	if err := u.all(ctx); err != nil {
		return r, fmt.Errorf("read the backup %s: %w", file, err)
	}
	if err := checkCopy(ctx, filepath.Join(staged, filepath.Base(cfg.SQLitePath())), log); err != nil {
		return r, fmt.Errorf("check what %s holds: %w", file, err)
	}
	placing = true
	for _, name := range u.holds {
		if err := ctx.Err(); err != nil {
			return r, fmt.Errorf("restore into DATA_DIR: %w", err)
		}
		if err := place(filepath.Join(staged, name), filepath.Join(cfg.DataDir, name)); err != nil {
			return r, fmt.Errorf("restore into DATA_DIR: %w", err)
		}
	}
	return Restored{DataDir: cfg.DataDir, CreatedAt: u.mark.CreatedAt, Version: u.mark.Version, Holds: u.holds},
		giveAway(cfg)
}

// stageRestore makes the directory of a restore. No service starts while it is there: where one is left the files of
// those names were put there by the restore that broke off. They are removed, and then the directory.
func stageRestore(dir string, names []string) (staged string, lock *flock.Flock, err error) {
	staged = filepath.Join(dir, restoring)
	if err := removeHalf(dir, staged, names); err != nil {
		return "", nil, err
	}
	if err := emptyDataDir(dir); err != nil {
		return "", nil, err
	}
	if err := errors.Join(os.Mkdir(staged, 0o700), syncDir(dir)); err != nil {
		return "", nil, fmt.Errorf("restore into DATA_DIR: %w", err)
	}
	lock = flock.New(filepath.Join(staged, stagingLock))
	_, _ = lock.TryLock() // where a file system has no locks, two restores at once are not noticed
	return staged, lock, nil
}

// removeHalf removes what a restore left that broke off, unless it is still under way.
func removeHalf(dir, staged string, names []string) error {
	if _, err := os.Lstat(staged); err != nil {
		return nil
	}
	lock := flock.New(filepath.Join(staged, stagingLock))
	if free, err := lock.TryLock(); err == nil && !free {
		return fmt.Errorf("another restore into DATA_DIR (%s) is under way", dir)
	}
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what a restore left that broke off: %w", err)
		}
	}
	return errs.Doing("remove what a restore left that broke off",
		errors.Join(lock.Close(), syncDir(dir), os.RemoveAll(staged)))
}

// emptyDataDir makes DATA_DIR, or refuses one that has something in it.
func emptyDataDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("DATA_DIR: %w", err)
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != "lost+found" }) { // of a volume
		return nil
	}
	lock := filepath.Join(dir, "nats", "lock") // of the queue inside an api
	if _, err := os.Stat(lock); err == nil {
		running := flock.New(lock, flock.SetFlag(os.O_RDONLY))
		defer func() { _ = running.Close() }()
		if free, err := running.TryRLock(); err == nil && !free {
			return fmt.Errorf("a service runs on DATA_DIR (%s): stop it, and restore into an empty directory", dir)
		}
	}
	return fmt.Errorf("DATA_DIR (%s) is not empty: a restore overwrites nothing. Move away what is in it, or set DATA_DIR",
		dir)
}

// notRestoring refuses a DATA_DIR that is being restored, or whose restore broke off.
func notRestoring(cfg *config.Config) error {
	if cfg.DatabaseURL != "" {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(cfg.DataDir, restoring)); err == nil {
		return fmt.Errorf("DATA_DIR (%s) is being restored, or `api restore` broke off: then run it again",
			cfg.DataDir)
	}
	return nil
}

// unpacking is a backup that is read into a directory.
type unpacking struct {
	r     *tar.Reader
	dir   string
	names []string // that a backup may have, in their order; the last is the database's
	mark  mark
	holds []string
}

// all reads the whole backup: the files of its mark and no other.
func (u *unpacking) all(ctx context.Context) error {
	if err := u.readMark(); err != nil {
		return err
	}
	before, last := -1, len(u.names)-1
	for _, file := range u.mark.Files {
		place := slices.Index(u.names, file.Name)
		if place <= before || place < last && file.Size > keyLongest {
			return fmt.Errorf("%w: it holds %q", errNoBackup, file.Name)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := u.readFile(file); err != nil {
			return err
		}
		before = place
	}
	if _, err := u.r.Next(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its end", errNoBackup)
	}
	if before != last {
		return fmt.Errorf("%w: it has no %s", errNoBackup, u.names[last])
	}
	return nil
}

// next finds the next entry, which must be a plain file of the name.
func (u *unpacking) next(name string) (*tar.Header, error) {
	header, err := u.r.Next()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoBackup, err)
	}
	_, sparse := header.PAXRecords["GNU.sparse.major"]
	_, oldSparse := header.PAXRecords["GNU.sparse.size"]
	if header.Typeflag != tar.TypeReg || sparse || oldSparse { // a sparse one is larger than its archive
		return nil, fmt.Errorf("%w: %q is no plain file", errNoBackup, header.Name)
	}
	if header.Name != name {
		return nil, fmt.Errorf("%w: it holds %q where %q belongs", errNoBackup, header.Name, name)
	}
	return header, nil
}

// readMark reads the first entry and refuses what is no backup, or one of a later format.
func (u *unpacking) readMark() error {
	if _, err := u.next(backupMark); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(u.r, keyLongest))
	if err == nil {
		err = json.Unmarshal(text, &u.mark)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoBackup, err)
	}
	if u.mark.Format != backupFormat {
		return fmt.Errorf("it has format %d, this build reads %d: use the build that made it (%s)", u.mark.Format,
			backupFormat, u.mark.Version)
	}
	return nil
}

// readFile writes one file into the directory, whose name is one of a backup's.
func (u *unpacking) readFile(file marked) (err error) {
	header, err := u.next(file.Name)
	if err != nil {
		return err
	}
	if header.Size != file.Size {
		return fmt.Errorf("%w: %q is larger or smaller than its mark says", errNoBackup, file.Name)
	}
	digest := sha256.New()
	to := io.Writer(digest)
	if file.Name != DemoFile { // a shell runs what is in it, and a backup may be a stranger's
		made, opened := os.OpenFile(filepath.Join(u.dir, file.Name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if opened != nil {
			return opened
		}
		defer func() { err = errors.Join(err, made.Sync(), made.Close()) }()
		to = io.MultiWriter(made, digest)
		u.holds = append(u.holds, file.Name)
	}
	if _, err := io.CopyN(to, u.r, file.Size); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: %w", errNoBackup, err)
		}
		return err
	}
	if hex.EncodeToString(digest.Sum(nil)) != file.SHA256 {
		return fmt.Errorf("%w: %q has another digest than its mark says", errNoBackup, file.Name)
	}
	return nil
}
