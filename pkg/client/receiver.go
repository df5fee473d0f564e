package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const receiverPath = "/api/webhook-receiver"

// ReceiverState says how the supplier's receiver does.
type ReceiverState string

// The states of a receiver.
const (
	ReceiverNone    ReceiverState = "none"    // there is no webhook-url
	ReceiverActive  ReceiverState = "active"  // it is called
	ReceiverFailing ReceiverState = "failing" // five failures in a row or more
	ReceiverPaused  ReceiverState = "paused"  // nothing is sent and nothing is lost
)

// Receiver is where the supplier's webhook calls go.
type Receiver struct {
	URL                 string           `json:"url"` // empty without one
	State               ReceiverState    `json:"state"`
	PausedBy            string           `json:"paused_by"` // supplier, operator or service while paused
	ConsecutiveFailures int64            `json:"consecutive_failures"`
	LastSuccessAt       time.Time        `json:"last_success_at"` // zero for never
	LastFailureAt       time.Time        `json:"last_failure_at"`
	LastError           string           `json:"last_error"`
	Secrets             []ReceiverSecret `json:"secrets"` // those that sign now
}

// ReceiverSecret is what is shown of a secret.
type ReceiverSecret struct {
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"` // zero for the one that stays
}

// TestCall is the outcome of a test call.
type TestCall struct {
	ID         string `json:"id"`     // its webhook-id
	URL        string `json:"url"`    // that was called, without a query's values
	Status     int    `json:"status"` // of the receiver's answer, 0 without one
	Error      string `json:"error"`
	DurationMS int64  `json:"duration_ms"`
	Response   string `json:"response"` // the first 1 KiB of the answer
}

// EventType is a type of webhook event.
type EventType struct {
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the body
	Example     json.RawMessage `json:"example"`
}

// PortalSession is a link into the portal. It works once, until it expires.
type PortalSession struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Receiver returns the supplier's receiver.
func (c *Client) Receiver(ctx context.Context) (Receiver, error) {
	return fetch[Receiver](ctx, c, get(receiverPath, nil, "state"))
}

// SetReceiver makes url the place of the supplier's webhook calls: they go below it, or to itself with the request's id
// for each {id} in it. A pause stays.
func (c *Client) SetReceiver(ctx context.Context, url string) (Receiver, error) {
	return fetch[Receiver](ctx, c, call{method: http.MethodPut, path: receiverPath, body: map[string]string{"url": url},
		safe: true, members: "state"})
}

// DeleteReceiver ends the calls. Pending deliveries are kept for a new receiver.
func (c *Client) DeleteReceiver(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodDelete, path: receiverPath, safe: true, status: http.StatusNoContent}, nil)
}

// PauseReceiver keeps deliveries as pending until ResumeReceiver. Without a receiver both are ErrConflict.
func (c *Client) PauseReceiver(ctx context.Context) (Receiver, error) {
	return fetch[Receiver](ctx, c, call{method: http.MethodPost, path: receiverPath + "/pause", safe: true,
		members: "state"})
}

// ResumeReceiver sends what was kept, in its order. Only the operator resumes a receiver that the operator paused.
func (c *Client) ResumeReceiver(ctx context.Context) (Receiver, error) {
	return fetch[Receiver](ctx, c, call{method: http.MethodPost, path: receiverPath + "/resume", safe: true,
		members: "state"})
}

// TestReceiver makes the service send one signed test call now, to where deliveries go. A receiver that does not
// answer is not an error: TestCall says what came of it.
func (c *Client) TestReceiver(ctx context.Context) (TestCall, error) {
	return fetch[TestCall](ctx, c, call{method: http.MethodPost, path: receiverPath + "/test", members: "id"})
}

// RotateSecret makes a new secret and returns it, the only time that it is shown. Both sign until overlap (0 to 168 h)
// is over. It is not repeated when its answer is lost: the new secret would be lost with it, so rotate again.
func (c *Client) RotateSecret(ctx context.Context, overlap time.Duration) (webhook.Secret, error) {
	answer, err := fetch[struct {
		Secret string `json:"webhook_secret"`
	}](ctx, c, call{method: http.MethodPost, path: receiverPath + "/rotate-secret",
		body: map[string]string{"overlap": overlap.String()}, members: "webhook_secret"})
	if err != nil {
		return webhook.Secret{}, err
	}
	secret, err := webhook.ParseSecret(answer.Secret)
	if err != nil {
		return webhook.Secret{}, fmt.Errorf("read the new secret: %w", err)
	}
	return secret, nil
}

// EventTypes returns the types of events that the service sends.
func (c *Client) EventTypes(ctx context.Context) ([]EventType, error) {
	return fetch[[]EventType](ctx, c, get("/api/webhook-event-types", nil, ""))
}

// CreatePortalSession returns a link for a person who shall see and repair the supplier's deliveries in a browser.
func (c *Client) CreatePortalSession(ctx context.Context) (PortalSession, error) {
	return fetch[PortalSession](ctx, c, call{method: http.MethodPost, path: "/api/portal-sessions",
		status: http.StatusCreated, members: "url expires_at"})
}
