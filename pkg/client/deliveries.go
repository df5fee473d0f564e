package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const deliveriesPath = "/api/webhook-deliveries"

// DeliveryStatus is a delivery's state.
type DeliveryStatus string

// The states of a delivery.
const (
	Pending        DeliveryStatus = "pending"   // not tried yet, or to be tried again
	Delivered      DeliveryStatus = "delivered" // answered 2xx
	Dead           DeliveryStatus = "dead"      // given up: its schedule is used up, or it became too old
	DeliveryFailed DeliveryStatus = "failed"    // answered in a way that ends it

	Undelivered DeliveryStatus = "undelivered" // of a Recovery alone: pending, dead and failed
)

// Delivery is an event on its way to the supplier's receiver.
type Delivery struct {
	ID            string         `json:"id"` // the webhook-id
	RequestID     int64          `json:"request_id"`
	EventType     string         `json:"event_type"`
	Status        DeliveryStatus `json:"status"`
	AttemptCount  int            `json:"attempt_count"`
	NextAttemptAt time.Time      `json:"next_attempt_at"` // zero when there is none
	CreatedAt     time.Time      `json:"created_at"`
	UpdatedAt     time.Time      `json:"updated_at"`
	LastAttempt   *Attempt       `json:"last_attempt"` // the last one begun, nil before the first
}

// Attempt is one call of the receiver.
type Attempt struct {
	Number     int       `json:"number"`
	StartedAt  time.Time `json:"started_at"`
	DurationMS *int64    `json:"duration_ms"` // nil until it has ended
	Status     int       `json:"status"`      // of the receiver's answer, 0 without one
	Error      string    `json:"error"`
	URL        string    `json:"url"`      // that was called, without a query's values; empty in a Delivery's LastAttempt
	Response   string    `json:"response"` // the first 1 KiB of the answer; empty in a Delivery's LastAttempt
}

// DeliveryDetail is a delivery with all that is known of it.
type DeliveryDetail struct {
	Delivery
	Event    json.RawMessage `json:"event"`    // the body that is sent
	Attempts []Attempt       `json:"attempts"` // all of them, oldest first
}

// DeliveryFilter chooses deliveries; its zero value chooses all.
type DeliveryFilter struct {
	Status       DeliveryStatus
	RequestID    *int64
	Since, Until time.Time // when the delivery was made; Since is inclusive, Until is not
}

func (f DeliveryFilter) query() url.Values {
	query := url.Values{}
	set(query, "status", f.Status, string(f.Status))
	if f.RequestID != nil {
		query.Set("request_id", strconv.FormatInt(*f.RequestID, 10))
	}
	setTime(query, "since", f.Since)
	setTime(query, "until", f.Until)
	return query
}

// Deliveries iterates over what goes to the supplier's own receiver, newest first. The loop may redeliver what it
// finds.
func (c *Client) Deliveries(ctx context.Context, f DeliveryFilter) iter.Seq2[Delivery, error] {
	return all[Delivery](ctx, c, deliveriesPath, f.query())
}

// DeliveryPage returns the page of Deliveries behind a cursor, an empty one the first. A limit of 0 means 20.
func (c *Client) DeliveryPage(ctx context.Context, f DeliveryFilter, limit int, cursor string) (
	Page[Delivery], error) {
	return page[Delivery](ctx, c, deliveriesPath, f.query(), limit, cursor)
}

// Delivery returns a delivery with its event and attempts.
func (c *Client) Delivery(ctx context.Context, id string) (DeliveryDetail, error) {
	return fetch[DeliveryDetail](ctx, c, get(deliveriesPath+"/"+url.PathEscape(id), nil, "id status event attempts"))
}

// Redeliver starts a new series of attempts for the delivery under the same webhook-id; of a pending one the next
// attempt is made now.
func (c *Client) Redeliver(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodPost, path: deliveriesPath + "/" + url.PathEscape(id) + "/redeliver",
		status: http.StatusAccepted, members: "id status"}, nil)
}

// Recovery chooses what Recover sends again: the deliveries of a state that were made since a moment, which is needed,
// and before Until unless that is zero.
type Recovery struct {
	Status       DeliveryStatus // Undelivered, or one of the states
	Since, Until time.Time
}

// Recover redelivers what a receiver lost in an outage and returns how many deliveries that are. Where these are a
// million it takes minutes: set Config.HTTP, whose timeout is 90 seconds by default. The service goes on without it.
func (c *Client) Recover(ctx context.Context, r Recovery) (int64, error) {
	body := struct {
		Status DeliveryStatus `json:"status"`
		Since  time.Time      `json:"since,omitzero"`
		Until  time.Time      `json:"until,omitzero"`
	}{r.Status, r.Since.UTC(), r.Until.UTC()}
	answer, err := fetch[struct {
		Redelivered int64 `json:"redelivered"`
	}](ctx, c, call{method: http.MethodPost, path: deliveriesPath + "/redeliver", body: body,
		status: http.StatusAccepted, members: "redelivered"})
	return answer.Redelivered, err
}
