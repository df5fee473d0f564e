package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The three headers of the Standard Webhooks specification.
const (
	HeaderID        = "Webhook-Id"        // one per delivery, the same on every attempt
	HeaderTimestamp = "Webhook-Timestamp" // when the attempt was made, Unix seconds
	HeaderSignature = "Webhook-Signature" // v1,<base64>; several, separated by spaces, while a secret is rotated
)

// Tolerance is how far a call's timestamp may lie from the receiver's clock, in either direction.
const Tolerance = 5 * time.Minute

// Why a call was refused. Each of them means: do not trust it, answer 401.
var (
	ErrHeaders   = errors.New("webhook: a webhook header is missing or repeated")
	ErrID        = errors.New("webhook: webhook-id is not 1 to 128 of A-Z a-z 0-9 _ -")
	ErrTimestamp = errors.New("webhook: webhook-timestamp is not Unix seconds within 5 minutes of now")
	ErrSignature = errors.New("webhook: no signature matches")
)

const (
	version         = "v1,"
	maxID           = 128
	timestampDigits = 12 // 30,000 years: a longer one could overflow
)

// Sign returns the value of the webhook-signature header: one signature a secret, in the order given.
func Sign(id string, at time.Time, body []byte, secrets ...Secret) string {
	signatures := make([]string, 0, len(secrets))
	for _, s := range secrets {
		if s.key != nil {
			signatures = append(signatures, version+
				base64.StdEncoding.EncodeToString(s.mac(id, strconv.FormatInt(at.Unix(), 10), body)))
		}
	}
	return strings.Join(signatures, " ")
}

// Verify reports whether one of the secrets signed this call, made within Tolerance of now, and returns its webhook-id.
// A receiver that remembers the ids it has handled is safe against repeated calls. body is the raw body, before any
// decoding. The error is one of ErrHeaders, ErrID, ErrTimestamp, ErrSignature.
func Verify(h http.Header, body []byte, now time.Time, secrets ...Secret) (id string, err error) {
	id, timestamp, signatures := h.Get(HeaderID), h.Get(HeaderTimestamp), h.Get(HeaderSignature)
	for _, name := range []string{HeaderID, HeaderTimestamp, HeaderSignature} {
		if len(h.Values(name)) != 1 {
			return "", ErrHeaders
		}
	}
	if !validID(id) {
		return "", ErrID
	}
	if !validTimestamp(timestamp, now) {
		return "", ErrTimestamp
	}
	if !anyMatches(id, timestamp, body, decode(signatures), secrets) {
		return "", ErrSignature
	}
	return id, nil
}

func validID(id string) bool {
	if id == "" || len(id) > maxID {
		return false
	}
	for _, c := range []byte(id) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func validTimestamp(text string, now time.Time) bool {
	if len(text) > timestampDigits || strings.HasPrefix(text, "0") { // there is one spelling of each moment
		return false
	}
	seconds, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return false
	}
	return now.Sub(time.Unix(int64(seconds), 0)).Abs() <= Tolerance
}

// decode picks the signatures of our version out of the header; others may be next to them and are not ours.
func decode(header string) [][]byte {
	var signatures [][]byte
	for _, text := range strings.Fields(header) {
		encoded, ours := strings.CutPrefix(text, version)
		if !ours {
			continue
		}
		if signature, err := base64.StdEncoding.Strict().DecodeString(encoded); err == nil && len(signature) == sha256.Size {
			signatures = append(signatures, signature)
		}
	}
	return signatures
}

// anyMatches reports whether any signature is right. It compares every pair, so that its time does not show which one
// matched.
func anyMatches(id, timestamp string, body []byte, signatures [][]byte, secrets []Secret) bool {
	found := false
	for _, s := range secrets {
		if s.key == nil {
			continue
		}
		expected := s.mac(id, timestamp, body)
		for _, signature := range signatures {
			if hmac.Equal(expected, signature) {
				found = true
			}
		}
	}
	return found
}
