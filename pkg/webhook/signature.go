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
	alphabet        = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-" // of an id
	maxID           = 128
	timestampDigits = 12 // 30,000 years: a longer one could overflow
)

// Sign returns the value of the webhook-signature header: one signature a secret, in the order given.
func Sign(id string, at time.Time, body []byte, secrets ...Secret) string {
	signatures := make([]string, 0, len(secrets))
	for _, s := range secrets {
		if s.key == nil {
			continue
		}
		mac := hmac.New(sha256.New, s.key())
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signatures = append(signatures, version+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
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
	if id == "" || len(id) > maxID || strings.Trim(id, alphabet) != "" {
		return "", ErrID
	}
	at, valid := parseTimestamp(timestamp)
	if !valid || now.Sub(at).Abs() > Tolerance {
		return "", ErrTimestamp
	}
	if !anyMatches(strings.Fields(Sign(id, at, body, secrets...)), strings.Fields(signatures)) {
		return "", ErrSignature
	}
	return id, nil
}

// parseTimestamp reads Unix seconds. There is one spelling of each moment.
func parseTimestamp(text string) (at time.Time, valid bool) {
	seconds, err := strconv.ParseUint(text, 10, 63)
	return time.Unix(int64(seconds), 0), err == nil && len(text) <= timestampDigits && text[0] != '0'
}

// anyMatches reports whether any of the given signatures is right; others may be next to them. It compares every pair,
// so that its time does not show which one matched.
func anyMatches(right, given []string) bool {
	found := false
	for _, signature := range right {
		for _, text := range given {
			found = hmac.Equal([]byte(signature), []byte(text)) || found
		}
	}
	return found
}
