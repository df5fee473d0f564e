package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	requestsPath   = "/api/material-requests"
	requestMembers = "id status" // of every answer about one request
)

// Status is a material request's state.
type Status string

// The states of a material request.
const (
	Enqueued  Status = "enqueued"  // stored, estimates are being made
	Estimated Status = "estimated" // there are estimates, or reasons why there are none
	Selected  Status = "selected"  // an estimate was chosen
	Failed    Status = "failed"    // could not be estimated or delivered; see Request.Failure
)

// NewRequest is a material request to be made. ID is the caller's own and unique among its requests.
type NewRequest struct {
	ID        int64  `json:"id"`
	ShopCode  string `json:"shop_code"`
	Comment   string `json:"comment,omitempty"`
	Materials []Item `json:"materials"`
}

// Item is one material of a request. Sizes are centimetres of one piece.
type Item struct {
	MaterialID        int64    `json:"material_id"`
	Material          string   `json:"material"`
	MaterialVariantID *int64   `json:"material_variant_id,omitempty"`
	MaterialVariant   *string  `json:"material_variant,omitempty"`
	SKU               string   `json:"sku"`
	Width             float64  `json:"width"`
	Height            float64  `json:"height"`
	Depth             *float64 `json:"depth,omitempty"`
	Quantity          int64    `json:"quantity"` // at least 1
}

// Request is a material request as the service keeps it.
type Request struct {
	ID                 int64                 `json:"id"`
	ShopCode           string                `json:"shop_code"`
	Comment            string                `json:"comment"`
	Materials          []Item                `json:"materials"`
	Status             Status                `json:"status"`
	CreatedAt          time.Time             `json:"created_at"`
	UpdatedAt          time.Time             `json:"updated_at"`
	Estimates          []webhook.Estimate    `json:"estimates"`            // those that can be selected
	Unavailable        []webhook.Unavailable `json:"unavailable"`          // services that cannot deliver, and why
	SelectedEstimateID string                `json:"selected_estimate_id"` // empty until one is selected
	Failure            string                `json:"failure"`              // why the request is Failed
}

// Selection is a chosen estimate.
type Selection struct {
	ID         int64     `json:"id"`
	EstimateID string    `json:"estimate_id"`
	SelectedAt time.Time `json:"selected_at"`
}

// Order is a request with a selected estimate, of any supplier.
type Order struct {
	Request
	SupplierID       string           `json:"supplier_id"`
	SelectedEstimate webhook.Estimate `json:"selected_estimate"`
	SelectedAt       time.Time        `json:"selected_at"`
}

func requestPath(id int64) string { return requestsPath + "/" + strconv.FormatInt(id, 10) }

// CreateRequest asks for materials. When it returns nil the request is stored durably and will be estimated. The same
// request again is a success and is processed once; another one under the same id is ErrConflict. Repeated items are
// ErrUnprocessable with Error.Duplicates.
func (c *Client) CreateRequest(ctx context.Context, r NewRequest) error {
	return c.do(ctx, call{method: http.MethodPost, path: requestsPath, body: r, safe: true,
		status: http.StatusCreated, members: requestMembers}, nil)
}

// Request returns one of the supplier's requests.
func (c *Client) Request(ctx context.Context, id int64) (Request, error) {
	return fetch[Request](ctx, c, get(requestPath(id), nil, requestMembers))
}

const (
	longestServerWait = 50 * time.Second // the service takes up to 60 s
	waitAgain         = 500 * time.Millisecond
)

// Wait returns the request as soon as it is not Enqueued any more, whatever it has become: look at its Status. It
// waits at the service, without polling, until ctx ends.
func (c *Client) Wait(ctx context.Context, id int64) (Request, error) {
	wait := longestServerWait
	if c.http.Timeout > 0 {
		wait = min(wait, c.http.Timeout/2)
	}
	query := url.Values{"wait": {wait.String()}}
	for {
		begun := time.Now()
		r, err := fetch[Request](ctx, c, get(requestPath(id), query, requestMembers))
		if err != nil || r.Status != Enqueued {
			return r, err
		}
		// A service that is about to stop answers before the time.
		if time.Since(begun) < wait && !pause(ctx, waitAgain) {
			<-ctx.Done()
			return r, ctx.Err()
		}
	}
}

// Requests iterates over the supplier's requests in the state, newest first; the empty Status means all. The loop may
// select or re-estimate what it finds.
func (c *Client) Requests(ctx context.Context, status Status) iter.Seq2[Request, error] {
	return all[Request](ctx, c, requestsPath, requestFilter(status))
}

// RequestPage returns the page of Requests behind a cursor, an empty one the first. A limit of 0 means 20.
func (c *Client) RequestPage(ctx context.Context, status Status, limit int, cursor string) (Page[Request], error) {
	return page[Request](ctx, c, requestsPath, requestFilter(status), limit, cursor)
}

func requestFilter(status Status) url.Values {
	query := url.Values{}
	set(query, "status", status, string(status))
	return query
}

// Reestimate asks for fresh estimates of a request that is Estimated or Failed. It is not repeated when its answer is
// lost: read the request to see what became of it.
func (c *Client) Reestimate(ctx context.Context, id int64) error {
	return c.do(ctx, call{method: http.MethodPost, path: requestPath(id) + "/re-estimate",
		status: http.StatusAccepted, members: requestMembers}, nil)
}

// Select chooses an estimate, permanently. The same choice again is a success; another one, or one too early, is
// ErrConflict; an estimate that is not the request's or is past its time is ErrUnprocessable.
func (c *Client) Select(ctx context.Context, id int64, estimateID string) (Selection, error) {
	return fetch[Selection](ctx, c, call{
		method: http.MethodPatch, path: requestPath(id) + "/selected-estimate", safe: true,
		members: "id estimate_id selected_at", body: map[string]string{"estimate_id": estimateID},
	})
}

// PostEstimates hands the service estimates of the supplier's own. It needs the scope estimates:write. Without a
// Timestamp they are of now. Those that are older than others of the same round, or by more than 5 minutes than the
// round itself, change nothing, which is no error.
func (c *Client) PostEstimates(ctx context.Context, e webhook.Event) error {
	e.Data.Estimates = append([]webhook.Estimate{}, e.Data.Estimates...) // nil would be null, which is refused
	e.Data.Unavailable = append([]webhook.Unavailable{}, e.Data.Unavailable...)
	e.Timestamp = cmp.Or(e.Timestamp, time.Now().UTC())
	return c.do(ctx, call{method: http.MethodPost, path: requestPath(e.Data.RequestID) + "/delivery-estimates", body: e,
		safe: true, members: requestMembers}, nil)
}

// Orders iterates over the selected requests of all suppliers, the latest selection first. It needs the scope
// orders:read.
func (c *Client) Orders(ctx context.Context) iter.Seq2[Order, error] {
	return all[Order](ctx, c, "/orders", nil)
}

// OrderPage returns the page of Orders behind a cursor, an empty one the first. A limit of 0 means 20.
func (c *Client) OrderPage(ctx context.Context, limit int, cursor string) (Page[Order], error) {
	return page[Order](ctx, c, "/orders", nil, limit, cursor)
}
