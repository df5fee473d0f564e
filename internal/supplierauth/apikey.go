package supplierauth

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"strings"
)

const (
	base62       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	keyLength    = 43 // base62 characters: 256 bit
	keyCheck     = 6  // base62 characters of the checksum
	keyLastShown = 4
)

// keyFormat is a family of keys: prefix, 256 random bit, checksum. The prefix lets secret scanners find a leaked key;
// the checksum keeps garbage away from the database and protects nothing.
type keyFormat struct {
	prefix string
	domain string // what is hashed before the key, so that no hash of one family is one of another
}

// supplierKeys is the format of API keys.
func supplierKeys() keyFormat { return keyFormat{prefix: "hub_sk_", domain: "hub/apikey/1\x00"} }

// generate makes a key.
func (f keyFormat) generate() string {
	var b strings.Builder
	b.WriteString(f.prefix)
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

// valid tells whether key has this format: one that generate could have made.
func (f keyFormat) valid(key string) bool {
	if len(key) != len(f.prefix)+keyLength+keyCheck || !strings.HasPrefix(key, f.prefix) {
		return false
	}
	for _, c := range []byte(key[len(f.prefix):]) {
		if strings.IndexByte(base62, c) < 0 {
			return false
		}
	}
	body := key[:len(key)-keyCheck]
	return key[len(body):] == checksum(body)
}

// hash is what is stored of a key. A key is random enough to need no salt and no slow function.
func (f keyFormat) hash(key string) []byte {
	sum := sha256.Sum256([]byte(f.domain + key))
	return sum[:]
}

// last4 is what an operator may see of a key.
func (keyFormat) last4(key string) string { return key[len(key)-keyLastShown:] }

func checksum(text string) string {
	sum := crc32.ChecksumIEEE([]byte(text))
	digits := [keyCheck]byte{}
	for i := keyCheck - 1; i >= 0; i-- {
		digits[i] = base62[sum%uint32(len(base62))]
		sum /= uint32(len(base62))
	}
	return string(digits[:])
}
