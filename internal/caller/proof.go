package caller

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
)

// ProofHeader carries the proof that a process of this service made a call to its own endpoint, and which round's event
// it brings.
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

// Of returns the proof for a call with this signature, and so with this body, which brings the event of the numbered
// round: uid/number/proof. Empty without a key.
func (p Proofs) Of(signature string, uid, number int64) string {
	if len(p.keys) == 0 {
		return ""
	}
	named := strconv.FormatInt(uid, 10) + "/" + strconv.FormatInt(number, 10) + "/"
	return named + base64.StdEncoding.EncodeToString(proof(p.keys[0], named, signature))
}

// Holds reports whether the text is a proof for a call with this signature, and of which round.
func (p Proofs) Holds(signature, text string) (uid, number int64, ok bool) {
	first, rest, _ := strings.Cut(text, "/")
	second, mac, _ := strings.Cut(rest, "/")
	given, err := base64.StdEncoding.DecodeString(mac)
	if err != nil || len(given) == 0 {
		return 0, 0, false
	}
	for _, key := range p.keys {
		if hmac.Equal(proof(key, first+"/"+second+"/", signature), given) {
			uid, errUID := strconv.ParseInt(first, 10, 64)
			number, errNumber := strconv.ParseInt(second, 10, 64)
			return uid, number, errUID == nil && errNumber == nil
		}
	}
	return 0, 0, false
}

func proof(key []byte, named, signature string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(named + signature))
	return mac.Sum(nil)
}
