package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrSecret is what ParseSecret answers. It does not repeat the text.
var ErrSecret = errors.New("webhook: a secret is whsec_ followed by base64 of 24 to 64 bytes")

const (
	secretPrefix = "whsec_"
	newSize      = 32
	minSize      = 24
	maxSize      = 64
	redacted     = "***"
)

// Secret signs and verifies calls. However it is printed, logged or marshalled it shows ***; Text alone shows it.
// The zero Secret signs nothing and verifies nothing.
type Secret struct {
	key func() []byte // a function: fmt shows bytes in a struct whose methods it may not call, and behind a pointer too
}

// NewSecret makes a random secret.
func NewSecret() Secret {
	key := make([]byte, newSize)
	rand.Read(key) // never fails: the process ends first
	return secretOf(key)
}

func secretOf(key []byte) Secret { return Secret{key: func() []byte { return key }} }

// ParseSecret reads the text form. The error is ErrSecret.
func ParseSecret(text string) (Secret, error) {
	encoded, found := strings.CutPrefix(text, secretPrefix)
	if !found || strings.ContainsAny(encoded, "\r\n") {
		return Secret{}, ErrSecret
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(key) < minSize || len(key) > maxSize {
		return Secret{}, ErrSecret
	}
	return secretOf(key), nil
}

// Text returns the secret itself, whsec_ followed by base64; empty for the zero Secret.
func (s Secret) Text() string {
	if s.key == nil {
		return ""
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(s.key())
}

// Equal reports whether both are the same secret, in constant time for secrets of one length.
func (s Secret) Equal(other Secret) bool {
	if s.key == nil || other.key == nil {
		return s.key == nil && other.key == nil
	}
	return hmac.Equal(s.key(), other.key())
}

// String returns ***.
func (s Secret) String() string { return redacted }

// Format prints *** for every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns ***, for JSON and logs too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
