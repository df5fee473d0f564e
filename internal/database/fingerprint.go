package database

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
)

// Fingerprint returns a hash of the engine's migrations, names and contents: the same fingerprint means the same
// schema.
func Fingerprint(engine Engine) (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(migrations, "migrations/"+string(engine), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := migrations.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		hash.Write([]byte(path + "\x00"))
		hash.Write(sum[:])
		return nil
	})
	return hex.EncodeToString(hash.Sum(nil)), err
}
