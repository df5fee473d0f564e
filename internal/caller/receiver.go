package caller

import (
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Receiver is where a supplier takes webhooks, and what signs them. Package supplierauth keeps it; package webhooks
// reads it before each attempt or remembers it for a moment.
type Receiver struct {
	URL     string           // base address, without a trailing slash and the path of the call; empty: it has none
	Secrets []webhook.Secret // all that sign now, the newest first
	Active  bool             // false: the supplier is deactivated and nothing is sent

	Concurrency int // calls that it takes at once, from all workers together
}

// Usable reports whether there is anything to call.
func (r Receiver) Usable() bool { return r.Active && r.URL != "" }

// Signed reports whether a call can be made now. What goes to a usable receiver none of whose secrets can be read waits.
func (r Receiver) Signed() bool { return r.Usable() && len(r.Secrets) > 0 }

// SecretValidity is when a secret of a receiver was made and ends; it does not hold the secret.
type SecretValidity struct {
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"` // nil: until it is rotated
}
