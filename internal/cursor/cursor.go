// Package cursor makes the cursors of lists. A cursor holds the key of the last row of a page, and the next page begins
// behind that row. It is sealed with AES-256-GCM under a key derived from SECRETS_KEY, so every replica opens it, a
// mistyped one is refused, and no client reads a count from it. The list and its filters are authenticated with it: a
// cursor opens only for the list and the filters that it was made for.
package cursor

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

const (
	keyInfo  = "supplyhub list cursor"
	intBytes = 8
)

// Sealer seals and opens cursors. The zero Sealer can do neither.
type Sealer struct{ keys []cipher.AEAD }

// New derives the keys from secrets separated by commas, the value of SECRETS_KEY: the first seals, each opens. Without
// a secret, as in a command that serves no lists, nothing can be sealed.
func New(secrets string) (s Sealer, err error) {
	for secret := range strings.SplitSeq(secrets, ",") {
		if secret = strings.TrimSpace(secret); secret == "" {
			continue
		}
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, keyInfo, sha256.Size)
		if err != nil {
			return Sealer{}, fmt.Errorf("derive the key of cursors: %w", err)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return Sealer{}, fmt.Errorf("make the cipher of cursors: %w", err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return Sealer{}, fmt.Errorf("make the cipher of cursors: %w", err)
		}
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

// List is a list with its owner and filters.
type List struct {
	keys []cipher.AEAD
	name []byte
}

// List names a list by its parts: which one it is, whose it is, and the value of each filter. Two lists are the same
// when all their parts are.
func (s Sealer) List(parts ...string) List {
	l := List{keys: s.keys}
	for _, part := range parts {
		l.name = binary.AppendUvarint(l.name, uint64(len(part)))
		l.name = append(l.name, part...)
	}
	return l
}

// Seal returns the cursor behind the row that has this key. It panics without a secret, which is a defect: a process
// that serves lists has one.
func (l List) Seal(key ...int64) string {
	plain := make([]byte, 0, len(key)*intBytes)
	for _, n := range key {
		plain = binary.BigEndian.AppendUint64(plain, uint64(n))
	}
	return base64.RawURLEncoding.EncodeToString(l.keys[0].Seal(nil, nil, plain, l.name))
}

// Open reads the key of a cursor and reports whether it is one of this list. Of any other text it reads nothing.
func (l List) Open(text string, key ...*int64) bool {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") { // the decoder skips line breaks
		return false
	}
	for _, aead := range l.keys {
		plain, err := aead.Open(nil, nil, sealed, l.name)
		if err != nil || len(plain) != len(key)*intBytes {
			continue
		}
		for i, target := range key {
			*target = int64(binary.BigEndian.Uint64(plain[i*intBytes:]))
		}
		return true
	}
	return false
}
