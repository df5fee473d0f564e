// Package apikey is the keys that callers hold: made, recognised, hashed and rotated in one place. It does not know who
// holds one, nor where they are stored.
package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"strings"
)

const (
	base62       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	keyLength    = 43 // base62 characters: 256 bits
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
	var b strings.Builder
	b.WriteString(f.Prefix)
	random := make([]byte, 2*keyLength)
	for n := 0; n < keyLength; {
		rand.Read(random) // never fails: the process ends first
		for _, r := range random {
			if int(r) < 256/len(base62)*len(base62) && n < keyLength { // the rest would favour some characters
				b.WriteByte(base62[int(r)%len(base62)])
				n++
			}
		}
	}
	return b.String() + checksum(b.String())
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
	sum := crc32.ChecksumIEEE([]byte(text))
	digits := [keyCheck]byte{}
	for i := keyCheck - 1; i >= 0; i-- {
		digits[i] = base62[sum%uint32(len(base62))]
		sum /= uint32(len(base62))
	}
	return string(digits[:])
}
