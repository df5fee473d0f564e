package caller

import (
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Receiver is where a supplier takes webhooks, and what signs them. Package supplierauth keeps it; package sending
// reads it before each attempt or remembers it for a moment.
type Receiver struct {
	URL     string           // address as CallURL takes it; empty: it has none
	Secrets []webhook.Secret // all that sign now, the newest first
	Active  bool             // false: the supplier is deactivated and nothing is sent

	Concurrency int // calls that it takes at once, from all workers together
}

// Usable reports whether there is anything to call.
func (r Receiver) Usable() bool { return r.Active && r.URL != "" }

// Signed reports whether a call can be made now. What goes to a usable receiver none of whose secrets can be read
// waits.
func (r Receiver) Signed() bool { return r.Usable() && len(r.Secrets) > 0 }

// RequestPlace is replaced by a request's id in an address that is called as it is written.
const RequestPlace = "{id}"

// CallURL returns where the call of a request goes: to the address as it is written, with the request's id in its
// places, or below an address that has no place for it.
func CallURL(address string, requestID int64) string {
	id := strconv.FormatInt(requestID, 10)
	if strings.Contains(address, RequestPlace) {
		return strings.ReplaceAll(address, RequestPlace, id)
	}
	return strings.TrimRight(address, "/") + "/api/material-requests/" + id + "/delivery-estimates"
}

// ShownURL returns an address without the values of its query, which may be keys.
func ShownURL(address string) string {
	before, query, found := strings.Cut(address, "?")
	if !found {
		return address
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		parts[i] = part[:strings.Index(part, "=")+1] + "…" // without a name nothing of it
	}
	return before + "?" + strings.Join(parts, "&")
}

// SecretValidity is when a secret of a receiver was made and ends; it does not hold the secret.
type SecretValidity struct {
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"` // nil: until it is rotated
}
