// Package apikey makes, recognises, hashes and rotates the keys that callers hold. It does not know who holds a key,
// nor where keys are stored.
package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"strings"
)

const (
	base62       = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // as big.Int writes it
	keyBytes     = 32
	keyLength    = 43 // base62 characters of these
	keyCheck     = 6  // base62 characters of the checksum
	keyLastShown = 4
)

// Format is a family of keys: prefix, 256 random bits, checksum. The prefix lets secret scanners find a leaked key;
// the checksum keeps garbage from the database and protects nothing.
type Format struct {
	Prefix string
	Domain string // is hashed before the key, so that no hash of one family is one of another
}

// Generate makes a key.
func (f Format) Generate() string {
	random := make([]byte, keyBytes)
	rand.Read(random) // never fails: the process ends first
	key := f.Prefix + digits(new(big.Int).SetBytes(random), keyLength)
	return key + checksum(key)
}

// Valid reports whether key has this form: Generate could have made it.
func (f Format) Valid(key string) bool {
	rest, found := strings.CutPrefix(key, f.Prefix)
	if !found || strings.Trim(rest, base62) != "" {
		return false
	}
	body := key[:max(len(key)-keyCheck, 0)]
	return len(rest) == keyLength+keyCheck && key[len(body):] == checksum(body)
}

// Hash returns what is stored of a key. A key is random enough to need no salt and no slow function.
func (f Format) Hash(key string) [sha256.Size]byte { return sha256.Sum256([]byte(f.Domain + key)) }

func checksum(text string) string {
	return digits(big.NewInt(int64(crc32.ChecksumIEEE([]byte(text)))), keyCheck)
}

// digits writes a number in base62, with zeros in front of it.
func digits(n *big.Int, width int) string {
	text := n.Text(len(base62))
	return strings.Repeat("0", width-len(text)) + text
}
