package deliveries

import (
	"errors"
	"net/http"
	"strings"
)

var (
	// ErrNoReceiver is of a supplier that has no address or is deactivated.
	ErrNoReceiver = errors.New("the supplier has no active receiver")
	// ErrNoSecret is of a supplier none of whose secrets can be read.
	ErrNoSecret = errors.New("the service cannot sign the call: its operator has to act")
)

// ErrSpecialAddress says nothing of the address: a name's addresses inside the operator's network are not the
// supplier's business.
var ErrSpecialAddress = errors.New("the receiver's address is not a public one")

// notPublic is one sentence for names that do not exist, names that the resolver does not answer for, and addresses of
// the operator's own network: kept apart they would show which names there are inside.
const notPublic = "the receiver's name does not exist or its address is not a public one"

// PublicError returns why an attempt came to nothing, in words that are safe for the receiver's owner: the network
// layers' errors name addresses of the operator's network, its resolver's for one. Stored is what they said, which the
// operator sees; it is replaced where a supplier reads it, so that a text that is not in the table shows nothing.
func PublicError(text string) string {
	for _, known := range []struct{ part, public string }{
		{"interrupted:", ""}, {"no answer within", ""}, {"status ", ""}, {ErrNoReceiver.Error(), ""},
		{ErrNoSecret.Error(), ""},
		{ErrSpecialAddress.Error(), notPublic}, {"the receiver's address is not a valid URL", ""},
		{"connection refused", "the connection was refused"},
		{"connection reset", "the connection was reset"},
		{"broken pipe", "the connection was reset"},
		{"no such host", notPublic}, {"server misbehaving", notPublic}, {"lookup ", notPublic},
		{"x509", "the receiver's TLS certificate is not valid for its name, has expired or is not trusted"},
		{"tls:", "the TLS handshake failed"},
		{"handshake", "the TLS handshake failed"},
		{"HTTP response to HTTPS", "the receiver answered http where https was expected"},
		{"unreachable", "the receiver's network cannot be reached"},
		{"no route", "the receiver's network cannot be reached"},
		{"timeout", "no answer in time"},
		{"deadline", "no answer in time"},
		{"EOF", "the connection was closed before an answer"},
		{"malformed HTTP", "the answer was not HTTP"},
		{"server response headers", "the answer's headers are too large"},
	} {
		switch {
		case known.public == "" && strings.HasPrefix(text, known.part): // our own words
			return text
		case known.public != "" && strings.Contains(text, known.part):
			return known.public
		}
	}
	return "the call failed"
}

// ProbableCause returns what is probably wrong with a receiver that answers a test call so; empty: the answer says it.
func ProbableCause(status int) string {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "the receiver refuses the signature: check that it verifies with your signing secret"
	case status == http.StatusNotFound:
		return "the receiver has nothing at this path: a test call goes to the address itself, " +
			"any other call to /api/material-requests/{id}/delivery-estimates below it"
	case status/100 == 3:
		return "the receiver redirects, and redirects are not followed: set the address that it redirects to"
	default:
		return ""
	}
}
