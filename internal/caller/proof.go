package caller

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// ProofHeader carries the proof that a process of this service made a call to its own endpoint.
const ProofHeader = "Supplyhub-Proof"

const proofInfo = "supplyhub own endpoint"

// Proofs makes and checks proofs. The key is known to the service's processes alone, unlike the secret that signs the
// call, which others that compute estimates have too.
type Proofs struct{ keys [][]byte }

// NewProofs derives the keys from secrets separated by commas: the first proves, each is accepted. Without any, nothing
// is proved.
func NewProofs(secrets string) (p Proofs, err error) {
	for secret := range strings.SplitSeq(secrets, ",") {
		if secret = strings.TrimSpace(secret); secret == "" {
			continue
		}
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, proofInfo, sha256.Size)
		if err != nil {
			return Proofs{}, err
		}
		p.keys = append(p.keys, key)
	}
	return p, nil
}

// Of returns the proof for a call with this signature, and so with this body; empty without a key.
func (p Proofs) Of(signature string) string {
	if len(p.keys) == 0 {
		return ""
	}
	return base64.StdEncoding.EncodeToString(proof(p.keys[0], signature))
}

// Holds reports whether the proof is one for a call with this signature.
func (p Proofs) Holds(signature, text string) bool {
	given, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(given) == 0 {
		return false
	}
	for _, key := range p.keys {
		if hmac.Equal(proof(key, signature), given) {
			return true
		}
	}
	return false
}

func proof(key []byte, signature string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signature))
	return mac.Sum(nil)
}
