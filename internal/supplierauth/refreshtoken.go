package supplierauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
)

const (
	refreshPrefix = "hub_rt_"
	handleSize    = 16
	secretSize    = 32
	refreshSize   = handleSize + secretSize + crc32.Size
)

// refreshToken is one of a family: the handle is the family's and stays, the secret is the token's own.
// Only a client that has held a token of the family knows its handle, which is written in no other place; the database
// keeps hashes. So a right handle with any other secret than the current one is a used token.
type refreshToken struct {
	handle [handleSize]byte
	secret [secretSize]byte
}

// newRefreshToken begins a family.
func newRefreshToken() refreshToken {
	var t refreshToken
	rand.Read(t.handle[:]) // never fails: the process ends first
	return t.successor()
}

// successor returns a fresh token of the same family.
func (t refreshToken) successor() refreshToken {
	rand.Read(t.secret[:])
	return t
}

// text returns the token as its holder gets it.
func (t refreshToken) text() string {
	raw := make([]byte, 0, refreshSize)
	raw = append(raw, t.handle[:]...)
	raw = append(raw, t.secret[:]...)
	raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
	return refreshPrefix + base64.RawURLEncoding.EncodeToString(raw)
}

// parseRefreshToken reads a token's text. There is one spelling of each token; garbage stops here, before the database.
func parseRefreshToken(text string) (refreshToken, bool) {
	var t refreshToken
	if len(text) != len(refreshPrefix)+base64.RawURLEncoding.EncodedLen(refreshSize) ||
		!strings.HasPrefix(text, refreshPrefix) {
		return refreshToken{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text[len(refreshPrefix):])
	if err != nil || len(raw) != refreshSize {
		return refreshToken{}, false
	}
	copy(t.handle[:], raw)
	copy(t.secret[:], raw[handleSize:])
	if t.text() != text { // checksum, and bits or line breaks that the decoder skips
		return refreshToken{}, false
	}
	return t, true
}

func (t refreshToken) handleHash() []byte { return hashOf("hub/refresh-handle/1\x00", t.handle[:]) }
func (t refreshToken) secretHash() []byte { return hashOf("hub/refresh-secret/1\x00", t.secret[:]) }

func hashOf(domain string, value []byte) []byte {
	sum := sha256.Sum256(append([]byte(domain), value...))
	return sum[:]
}
