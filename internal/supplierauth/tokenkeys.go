package supplierauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// The keys of access tokens and their public side, /.well-known/jwks.json: Ed25519 or P-256, each key with one
// algorithm, so that a token cannot choose another one.

// signingKey is one of JWT_SIGNING_KEYS. Its kind decides its algorithm: Ed25519 is EdDSA, P-256 is ES256.
type signingKey struct {
	id      string // RFC 7638 thumbprint
	method  jwt.SigningMethod
	private crypto.Signer
	jwk     jwk
}

// jwk is the public part of a key by RFC 7517. Its required members are in the order of RFC 7638.
type jwk struct {
	Curve     string `json:"crv"`
	Type      string `json:"kty"`
	X         string `json:"x"`
	Y         string `json:"y,omitempty"`
	ID        string `json:"kid,omitempty"`
	Algorithm string `json:"alg,omitempty"`
	Use       string `json:"use,omitempty"`
}

// GenerateSigningKey makes a value for JWT_SIGNING_KEYS: an Ed25519 key, base64 of PKCS#8.
func GenerateSigningKey() (string, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("generate signing key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	return base64.StdEncoding.EncodeToString(der), errs.Doing("encode signing key", err)
}

// CheckSigningKeys reports what is wrong with a value of JWT_SIGNING_KEYS: the position of a bad key, never the key.
func CheckSigningKeys(text string) error {
	_, err := parseSigningKeys(text)
	return err
}

// parseSigningKeys reads keys separated by commas, each PKCS#8 as base64 or as PEM. An empty text is no keys.
func parseSigningKeys(text string) ([]*signingKey, error) {
	if text == "" {
		return nil, nil
	}
	var keys []*signingKey
	for i, part := range strings.Split(text, ",") {
		key, err := parseSigningKey(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("key %d %w", i+1, err)
		}
		for j, other := range keys {
			if other.id == key.id {
				return nil, fmt.Errorf("key %d is the same as key %d", i+1, j+1)
			}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// parseSigningKey never repeats what it read: that may be a key.
func parseSigningKey(text string) (*signingKey, error) {
	der, err := decodeKey(text)
	if err != nil {
		return nil, err
	}
	private, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("is not a PKCS#8 private key")
	}
	return newSigningKey(private)
}

// decodeKey reads one key: PEM, or the same in base64 on one line.
func decodeKey(text string) ([]byte, error) {
	if !strings.HasPrefix(text, "-----BEGIN") {
		der, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(der) == 0 {
			return nil, errors.New("is neither base64 nor PEM")
		}
		return der, nil
	}
	// An environment file cannot hold line breaks: \n is one.
	block, rest := pem.Decode([]byte(strings.ReplaceAll(text, `\n`, "\n")))
	if block == nil || block.Type != "PRIVATE KEY" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, errors.New("is not one PEM block of type PRIVATE KEY")
	}
	return block.Bytes, nil
}

// newSigningKey returns a key with its public part and its id, the thumbprint of RFC 7638: the same key has the same
// id in every process.
func newSigningKey(private any) (*signingKey, error) {
	var key signingKey
	encode := base64.RawURLEncoding.EncodeToString
	switch private := private.(type) {
	case ed25519.PrivateKey:
		public, _ := private.Public().(ed25519.PublicKey)
		key = signingKey{method: jwt.SigningMethodEdDSA, private: private,
			jwk: jwk{Curve: "Ed25519", Type: "OKP", X: encode(public)}}
	case *ecdsa.PrivateKey:
		point, err := private.PublicKey.Bytes() // 4, x, y
		if err != nil || private.Curve != elliptic.P256() {
			return nil, errors.New("is on another curve than P-256")
		}
		x, y := point[1:33], point[33:]
		key = signingKey{method: jwt.SigningMethodES256, private: private,
			jwk: jwk{Curve: "P-256", Type: "EC", X: encode(x), Y: encode(y)}}
	default:
		return nil, errors.New("is neither an Ed25519 nor a P-256 key")
	}
	required, err := json.Marshal(key.jwk)
	if err != nil {
		return nil, err
	}
	thumbprint := sha256.Sum256(required)
	key.id = encode(thumbprint[:])
	key.jwk.ID, key.jwk.Algorithm, key.jwk.Use = key.id, key.method.Alg(), "sig"
	return &key, nil
}

// jwks returns the verifying keys by RFC 7517.
func (t *tokens) jwks() map[string][]jwk {
	set := make([]jwk, 0, len(t.keys))
	for key := range slices.Values(t.keys) {
		set = append(set, key.jwk)
	}
	return map[string][]jwk{"keys": set}
}
