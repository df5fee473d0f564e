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
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// A backup is one tar: its mark with the sizes and digests of the files, then these in its order, the database last.
// The queue is not in it: the database says what is due.
const (
	backupMark   = "supplyhub-backup.json"
	backupFormat = 1
	staging      = ".supplyhub-backup" // a directory next to the backup, while it is made
	stagingLock  = "lock"
	stagingFiles = "files"
)

// DemoFile is where `serve --demo` keeps its supplier's credentials in DATA_DIR; a shell can read it.
const DemoFile = "demo.env"

// errNoCopy says how a service on PostgreSQL is backed up and restored.
var errNoCopy = errors.New("DATABASE_URL is set: this command copies DATA_DIR, where the embedded database is. Back " +
	"PostgreSQL up with `pg_dump --format=custom` or a base backup, restore it with pg_restore, run ANALYZE then, and " +
	"keep JWT_SIGNING_KEYS, SECRETS_KEY and WEBHOOK_SIGNING_SECRETS with it (deployments/backup.md)")

// Backup is what was copied. Keep names the variables whose values are not in it.
type Backup struct {
	File      string    `json:"file"`
	Bytes     int64     `json:"bytes"`
	CreatedAt time.Time `json:"created_at"`
	Holds     []string  `json:"holds"`
	Keep      []string  `json:"keep"`
}

// mark distinguishes a backup from other tars.
type mark struct {
	Format    int       `json:"format"`
	Version   string    `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	Files     []marked  `json:"files"`
}

// marked is a file of a backup.
type marked struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // as sha256sum prints it
}

// OpenForBackup is Open for a database that can be copied.
func OpenForBackup(ctx context.Context, cfg *config.Config, log *slog.Logger) (*App, error) {
	if cfg.DatabaseURL != "" {
		return nil, errNoCopy
	}
	return Open(ctx, cfg, log)
}

// Backup copies DATA_DIR into a tar that is not there yet, also while a service runs on it. The tar is there whole, or
// not at all.
func (a *App) Backup(ctx context.Context, file string) (b Backup, err error) {
	dir, lock, err := stage(filepath.Dir(file))
	if err != nil {
		return b, fmt.Errorf("write the backup: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir), lock.Close()) }()
	if _, err := os.Lstat(file); err == nil {
		return b, fmt.Errorf("%s is there already: a backup overwrites nothing", file)
	}
	b = Backup{File: file, CreatedAt: a.Now()}
	copied := filepath.Join(dir, stagingFiles, filepath.Base(a.cfg.SQLitePath()))
	if err := a.db.CopyTo(ctx, copied); err != nil {
		return b, err
	}
	if err := checkCopy(ctx, copied, a.log); err != nil {
		return b, fmt.Errorf("check the copy: %w", err)
	}
	whole := filepath.Join(dir, stagingFiles, "tar")
	if b.Bytes, b.Holds, err = a.pack(whole, copied, b.CreatedAt); err != nil {
		return b, fmt.Errorf("write the backup: %w", err)
	}
	b.Keep = a.kept(b.Holds)
	return b, errs.Doing("write the backup", errors.Join(ctx.Err(), place(whole, file)))
}

// stage makes a directory for what is not whole yet, of one backup at a time, without what a killed one left there.
func stage(near string) (dir string, lock *flock.Flock, err error) {
	dir = filepath.Join(near, staging)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", nil, err
	}
	lock = flock.New(filepath.Join(dir, stagingLock))
	if free, err := lock.TryLock(); err != nil {
		return "", nil, fmt.Errorf("lock %s: %w", dir, err)
	} else if !free {
		return "", nil, fmt.Errorf("another backup into %s is under way", near)
	}
	files := filepath.Join(dir, stagingFiles)
	return dir, lock, errors.Join(os.RemoveAll(files), os.Mkdir(files, 0o700))
}

// kept returns the variables whose values are not in the backup: this configuration gives them, or the service's does.
func (a *App) kept(holds []string) []string {
	names := []string{}
	for _, v := range []struct {
		name, file string
		value      config.Secret
	}{
		{"JWT_SIGNING_KEYS", signingKeysFile, a.cfg.SigningKeys}, {"SECRETS_KEY", secretsKeyFile, a.cfg.SecretsKeys},
		{"WEBHOOK_SIGNING_SECRETS", webhooksFile, a.cfg.WebhookSecrets},
		{"OPERATOR_TOKEN", operatorTokenFile, a.cfg.OperatorToken},
	} {
		if v.value != "" || !slices.Contains(holds, v.file) {
			names = append(names, v.name)
		}
	}
	return names
}

// checkCopy reports what keeps the database at the path from being served. It leaves that file alone behind.
func checkCopy(ctx context.Context, path string, log *slog.Logger) (err error) {
	db, err := database.Open(ctx, database.Config{Path: path, Profile: database.Maintenance, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.CheckRestored(ctx)
}

// keyFiles returns the names of the files next to the database that a backup has, where they are there.
func keyFiles() []string {
	return []string{signingKeysFile, secretsKeyFile, webhooksFile, operatorTokenFile, DemoFile}
}

// pack writes the tar and returns its size and what it holds.
func (a *App) pack(to, copied string, at time.Time) (size int64, holds []string, err error) {
	mark := mark{Format: backupFormat, Version: Version(), CreatedAt: at}
	paths := lists.Of(keyFiles(), func(name string) string { return filepath.Join(a.cfg.DataDir, name) })
	paths = slices.DeleteFunc(append(paths, copied), func(path string) bool {
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
	for _, path := range paths {
		file := marked{Name: filepath.Base(path)}
		digest := sha256.New()
		if file.Size, err = copyFile(digest, path, math.MaxInt64); err != nil {
			return 0, nil, err
		}
		file.SHA256 = hex.EncodeToString(digest.Sum(nil))
		mark.Files, holds = append(mark.Files, file), append(holds, file.Name)
	}
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := errors.Join(mark.write(file, paths), file.Sync()); err != nil {
		return 0, nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, nil, err
	}
	return info.Size(), holds, nil
}

// write writes the tar of the files, each entry for its owner alone. A file that has changed since is refused, by a
// restore at the latest.
func (m mark) write(to io.Writer, paths []string) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	w := tar.NewWriter(to)
	header := func(name string, size int64) error {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600,
			ModTime: m.CreatedAt.Truncate(time.Second)})
	}
	if err := header(backupMark, int64(len(text))); err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	for i, file := range m.Files {
		if err := header(file.Name, file.Size); err != nil {
			return err
		}
		if _, err := copyFile(w, paths[i], file.Size+1); err != nil {
			return err
		}
	}
	return w.Close()
}

// copyFile writes what is in a file, so many bytes at most.
func copyFile(to io.Writer, path string, most int64) (size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.Copy(to, io.LimitReader(file, most))
}

// place moves a file to a name that nothing has, durably.
func place(from, to string) error {
	err := os.Link(from, to)
	if err != nil && !errors.Is(err, fs.ErrExist) { // a file system without links
		if _, there := os.Lstat(to); errors.Is(there, fs.ErrNotExist) {
			err = os.Rename(from, to)
		}
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// syncDir makes names in a directory survive a loss of power.
func syncDir(path string) (err error) {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return dir.Sync()
}
