package supplierauth

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// The keys of access tokens and their public side, /.well-known/jwks.json. All are Ed25519, so that no token can choose
// an algorithm.

// signingKey is one of JWT_SIGNING_KEYS.
type signingKey struct {
	private ed25519.PrivateKey
	jwk     jwk
}

// jwk is the public part of a key by RFC 7517. Its required members are in the order of RFC 7638.
type jwk struct {
	Curve     string `json:"crv"`
	Type      string `json:"kty"`
	X         string `json:"x"`
	ID        string `json:"kid,omitempty"` // RFC 7638: the same key has the same in every process
	Algorithm string `json:"alg,omitempty"`
	Use       string `json:"use,omitempty"`
}

// GenerateSigningKey makes a value for JWT_SIGNING_KEYS: an Ed25519 key, base64 of PKCS#8.
func GenerateSigningKey() (string, error) {
	_, private, _ := ed25519.GenerateKey(rand.Reader) // never fails: the process ends first
	der, err := x509.MarshalPKCS8PrivateKey(private)
	return base64.StdEncoding.EncodeToString(der), errs.Doing("encode signing key", err)
}

// CheckSigningKeys reports what is wrong with a value of JWT_SIGNING_KEYS: the position of a bad key, never the key.
func CheckSigningKeys(text string) error {
	_, err := parseSigningKeys(text)
	return err
}

// parseSigningKeys reads keys separated by commas, each PKCS#8 as base64. An empty text is no keys.
func parseSigningKeys(text string) (keys []signingKey, err error) {
	if text == "" {
		return nil, nil
	}
	for i, part := range strings.Split(text, ",") {
		key, err := parseSigningKey(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("key %d %w", i+1, err)
		}
		same := func(other signingKey) bool { return other.jwk.ID == key.jwk.ID }
		if j := slices.IndexFunc(keys, same); j >= 0 {
			return nil, fmt.Errorf("key %d is the same as key %d", i+1, j+1)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// parseSigningKey never repeats what it read: that may be a key.
func parseSigningKey(text string) (key signingKey, err error) {
	der, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(der) == 0 {
		return key, errors.New("is not base64")
	}
	private, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return key, errors.New("is not a PKCS#8 private key")
	}
	ed, is := private.(ed25519.PrivateKey)
	if !is {
		return key, errors.New("is not an Ed25519 key")
	}
	public, _ := ed.Public().(ed25519.PublicKey)
	encode := base64.RawURLEncoding.EncodeToString
	key = signingKey{ed, jwk{Curve: "Ed25519", Type: "OKP", X: encode(public)}}
	required, err := json.Marshal(key.jwk)
	thumbprint := sha256.Sum256(required)
	key.jwk.ID, key.jwk.Algorithm, key.jwk.Use = encode(thumbprint[:]), algorithm, "sig"
	return key, err
}

// jwks returns the verifying keys by RFC 7517.
func (t *tokens) jwks() map[string][]jwk {
	return map[string][]jwk{"keys": lists.Of(t.keys, func(key signingKey) jwk { return key.jwk })}
}
