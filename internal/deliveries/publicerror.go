package deliveries

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

var (
	// ErrNoReceiver means that the supplier has no address or is deactivated.
	ErrNoReceiver = errors.New("the supplier has no active receiver")
	// ErrNoSecret means that none of the supplier's secrets can be read.
	ErrNoSecret = errors.New("the service cannot sign the call: its operator has to act")
)

// ErrSpecialAddress says nothing of the address: a name's addresses inside the operator's network are not the
// supplier's business.
var ErrSpecialAddress = errors.New("the receiver's address is not a public one")

// ErrIncomplete comes before what is said of a certificate whose issuer's the receiver did not send with it.
var ErrIncomplete = errors.New("the issuer's certificate was not sent")

// notPublic is one sentence for three cases: the name does not exist, the resolver does not answer for it, or its
// address is in the operator's own network. Separate sentences would show which names exist inside.
const notPublic = "the receiver's name does not exist or its address is not a public one"

// Why an attempt failed, in words for the receiver's owner, who alone can repair it.
const (
	Unanswered = "no answer within %s"
	Redirects  = "the receiver redirects to %s, and redirects are not followed: set the address that it redirects to"

	late      = "no answer in time"
	reset     = "the connection was reset"
	handshake = "the TLS handshake failed"
	nowhere   = "the receiver's network cannot be reached"
	otherName = "the receiver's TLS certificate is for another name than that of its address"
	lacking   = "the receiver sends its TLS certificate without the intermediate one, or its issuer is not known: " +
		"let it send the whole chain"
	stranger  = "the issuer of the receiver's TLS certificate is not known: use one of a public authority"
	expired   = "the receiver's TLS certificate has expired, or is not valid yet: renew it"
	oldTLS    = "the receiver has no TLS of version 1.2 or newer"
	clientTLS = "the receiver asks for a client certificate, and the service has none"
)

// PublicError returns why an attempt failed, in words that are safe for the receiver's owner. The network layers'
// errors name addresses of the operator's network, for example its resolver's. The database keeps them for the
// operator. They are replaced when a supplier reads them, so that a text that is not in the table shows nothing.
func PublicError(text string) string {
	for _, known := range []struct{ part, public string }{
		{"interrupted:", ""}, {"no answer within", ""}, {"status ", ""}, {ErrNoReceiver.Error(), ""},
		{ErrNoSecret.Error(), ""}, {"the receiver", ""}, {page, ""},
		{ErrSpecialAddress.Error(), notPublic},
		{"connection refused", "the connection was refused"},
		{"connection reset", reset}, {"broken pipe", reset},
		{"no such host", notPublic}, {"server misbehaving", notPublic}, {"lookup ", notPublic},
		{ErrIncomplete.Error(), lacking},
		{"x509: certificate has expired", expired},
		{"x509: certificate is valid for", otherName}, {"x509: certificate is not valid for any names", otherName},
		{"x509: cannot validate certificate for", otherName}, {"x509: certificate relies on legacy", otherName},
		{"x509: certificate signed by unknown authority", stranger},
		{"x509", "the receiver's TLS certificate cannot be verified"},
		{"handshake timeout", late},
		{"protocol version", oldTLS}, {"certificate required", clientTLS}, {"bad certificate", clientTLS},
		{"tls:", handshake}, {"handshake", handshake},
		{"HTTP response to HTTPS", "the receiver answered http where https was expected"},
		{"unreachable", nowhere}, {"no route", nowhere},
		{"timeout", late}, {"deadline", late}, {"connection lost", late},
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

const page = "a web page answers in place of the receiver, such as a firewall's or one to sign in: " +
	"let signed calls through"

// notTaken is what the operator reads of a call that the own endpoint, or what is before it, did not take.
const notTaken = "the delivery-estimates webhook did not take the call: " +
	"its own log, or that of a proxy before it, says why"

// Cause returns what is probably wrong with a receiver that answers so; empty: it took the call. A web page does not
// come from the receiver, so it says nothing about the signature.
func (a Answer) Cause() string {
	switch {
	case a.Status/100 == 2:
		return ""
	case a.redirects():
		return fmt.Sprintf(Redirects, a.Location)
	case a.Page && (a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden):
		return page
	case a.Status == http.StatusUnauthorized:
		return "the receiver refuses the signature: check that it verifies with your signing secret"
	case a.Status == http.StatusForbidden:
		return "the receiver, or a firewall before it, refuses the call: check your signing secret, and that signed calls " +
			"are let through"
	case a.Status == http.StatusNotFound, a.Status == http.StatusMethodNotAllowed:
		return "the receiver takes no POST at this path: an address with {id} is called as it is written, " +
			"any other one has /api/material-requests/{id}/delivery-estimates behind it"
	case a.Status == http.StatusGone:
		return "the receiver says that it is gone permanently: repair it, or set its new address"
	case a.Status == http.StatusTooManyRequests:
		return "the receiver, or what is before it, takes fewer calls than it gets: raise its limit"
	case a.Status >= http.StatusInternalServerError:
		return "the receiver, or what is before it, failed to take the call: its own log says why"
	default:
		return "the receiver does not take the call: its own log says why"
	}
}

// redirects reports whether the answer names another address for the same call.
func (a Answer) redirects() bool {
	return a.Location != "" && slices.Contains([]int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect}, a.Status)
}
