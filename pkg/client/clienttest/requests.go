package clienttest

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// request is a material request in the form in which it is answered.
type request struct {
	asked
	Status      string                `json:"status"`
	CreatedAt   time.Time             `json:"created_at"`
	UpdatedAt   time.Time             `json:"updated_at"`
	Estimates   []webhook.Estimate    `json:"estimates"`
	Unavailable []webhook.Unavailable `json:"unavailable"`
	Selected    *string               `json:"selected_estimate_id"`
	Failure     *string               `json:"failure"`

	round      int
	since      time.Time // older events of the supplier's own change nothing
	selectedAt time.Time
	changed    chan struct{} // closed when the status changes
}

// asked is the body of a request.
type asked struct {
	ID        int64   `json:"id"`
	ShopCode  string  `json:"shop_code"`
	Comment   *string `json:"comment"`
	Materials []item  `json:"materials"`
}

type item struct {
	MaterialID        int64    `json:"material_id"`
	Material          string   `json:"material"`
	MaterialVariantID *int64   `json:"material_variant_id"`
	MaterialVariant   *string  `json:"material_variant"`
	SKU               string   `json:"sku"`
	Width             float64  `json:"width"`
	Height            float64  `json:"height"`
	Depth             *float64 `json:"depth"`
	Quantity          int64    `json:"quantity"`
}

func (r *request) become(status string) {
	r.Status, r.UpdatedAt = status, time.Now().UTC()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (s *Server) createRequest(r *http.Request) answer {
	body, refused := readBody[asked](r, members("id shop_code materials", map[string]shape{
		"id": anyInteger(), "shop_code": name(), "comment": upTo(maxComment),
		"materials": list(1, members("material_id material sku width height quantity", map[string]shape{
			"material_id": anyInteger(), "material": name(), "material_variant_id": anyInteger(),
			"material_variant": upTo(math.MaxInt32), "sku": name(), "width": number(maxSize), "height": number(maxSize),
			"depth": number(maxSize), "quantity": integer(1, math.MaxInt32),
		})),
	}))
	if refused != nil {
		return *refused
	}
	if repeated := duplicates(body.Materials); len(repeated) > 0 {
		return answer{status: http.StatusUnprocessableEntity,
			body: map[string]any{"message": "Duplicate material items are not allowed.", "duplicates": repeated}}
	}
	if known := s.requests[body.ID]; known != nil {
		if !reflect.DeepEqual(known.asked, body) {
			return refuse(http.StatusConflict, "You have another request with this id.")
		}
		return enqueued(http.StatusCreated, body.ID)
	}
	now := time.Now().UTC()
	fresh := &request{asked: body, Status: "enqueued", CreatedAt: now, UpdatedAt: now, Estimates: []webhook.Estimate{},
		Unavailable: []webhook.Unavailable{}, changed: make(chan struct{}), round: 1, since: now.Add(-eventSkew)}
	s.requests[fresh.ID] = fresh
	s.order = append(s.order, fresh.ID)
	s.estimateSoon(r.Context(), fresh)
	return enqueued(http.StatusCreated, fresh.ID)
}

func enqueued(status int, id int64) answer {
	return answer{status: status, body: map[string]any{"status": "enqueued", "id": id}}
}

// duplicates returns the repeated combinations, each once.
func duplicates(items []item) []client.Duplicate {
	seen := map[string]int{}
	var repeated []client.Duplicate
	for _, m := range items {
		variant, _ := json.Marshal(m.MaterialVariantID) // an integer, or null
		key := fmt.Sprintf("%d %s %s", m.MaterialID, variant, m.SKU)
		if seen[key]++; seen[key] == 2 {
			repeated = append(repeated, client.Duplicate{MaterialID: m.MaterialID,
				MaterialVariantID: m.MaterialVariantID, SKU: m.SKU})
		}
	}
	return repeated
}

// find returns the request of the path; it needs the lock.
func (s *Server) find(r *http.Request) (*request, *answer) {
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	if known := s.requests[id]; err == nil && known != nil && strconv.FormatInt(id, 10) == text {
		return known, nil
	}
	return nil, new(refuse(http.StatusNotFound, "There is no such material request."))
}

const longestWait = time.Minute

func (s *Server) getRequest(r *http.Request) answer {
	q, refused := parameters{"wait": isDuration(longestWait)}.read(r)
	if refused != nil {
		return *refused
	}
	wait, _ := time.ParseDuration(q.Get("wait")) // it was checked, or is none
	known, refused := s.find(r)
	if refused == nil && known.Status == "enqueued" && wait > 0 {
		changed := known.changed
		s.mu.Unlock()
		waitFor(r.Context(), changed, wait)
		s.mu.Lock()
	}
	if refused != nil {
		return *refused
	}
	return ok(*known)
}

func waitFor(ctx context.Context, changed <-chan struct{}, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case <-changed:
	case <-ctx.Done():
	}
}

func (s *Server) listRequests(r *http.Request) answer {
	filters := parameters{"status": isOneOf("enqueued", "estimated", "selected", "failed")}
	return listing(r, filters, func(q url.Values) (list []placed[request]) {
		for place, id := range slices.Backward(s.order) {
			if known := s.requests[id]; !q.Has("status") || known.Status == q.Get("status") {
				list = append(list, placed[request]{place, *known})
			}
		}
		return list
	})
}

func (s *Server) listOrders(r *http.Request) answer {
	type order struct {
		SupplierID string `json:"supplier_id"`
		request
		SelectedEstimate webhook.Estimate `json:"selected_estimate"`
		SelectedAt       time.Time        `json:"selected_at"`
	}
	return listing(r, parameters{}, func(url.Values) (list []placed[order]) {
		for place, id := range slices.Backward(s.selected) {
			known := s.requests[id]
			list = append(list, placed[order]{place, order{SupplierID: s.SupplierID, request: *known,
				SelectedEstimate: known.estimate(*known.Selected), SelectedAt: known.selectedAt}})
		}
		return list
	})
}

func (r *request) estimate(id string) webhook.Estimate {
	i := slices.IndexFunc(r.Estimates, func(e webhook.Estimate) bool { return e.EstimateID == id })
	if i < 0 {
		return webhook.Estimate{}
	}
	return r.Estimates[i]
}

func (s *Server) reestimate(r *http.Request) answer {
	known, refused := s.find(r)
	switch {
	case refused != nil:
		return *refused
	case known.Status == "selected":
		return refuse(http.StatusConflict, "An estimate of this request is selected already.")
	case known.Status != "enqueued":
		known.Estimates, known.Unavailable, known.Failure = []webhook.Estimate{}, []webhook.Unavailable{}, nil
		known.round++
		known.become("enqueued")
		known.since = known.UpdatedAt.Add(-eventSkew)
		s.estimateSoon(r.Context(), known)
	}
	return enqueued(http.StatusAccepted, known.ID)
}

func (s *Server) selectEstimate(r *http.Request) answer {
	body, refused := readBody[struct {
		Chosen string `json:"estimate_id"`
	}](r, members("estimate_id", map[string]shape{"estimate_id": name()}))
	if refused != nil {
		return *refused
	}
	chosen := body.Chosen
	known, refused := s.find(r)
	switch {
	case refused != nil:
		return *refused
	case known.Status == "selected" && *known.Selected != chosen:
		return refuse(http.StatusConflict, "Another estimate of this request is selected already.")
	case known.Status != "selected" && known.Status != "estimated":
		return refuse(http.StatusConflict, "The request has no estimates yet.")
	case known.Status == "estimated":
		if e := known.estimate(chosen); e.EstimateID == "" || time.Now().After(e.ValidUntil) {
			return refuse(http.StatusUnprocessableEntity, "The estimate cannot be selected.", violation{
				Pointer: new("/estimate_id"), Detail: "is not an estimate of this request, or is past its valid_until"})
		}
		known.Selected, known.selectedAt = &chosen, time.Now().UTC()
		s.selected = append(s.selected, known.ID)
		known.become("selected")
	}
	return ok(map[string]any{"status": "selected", "id": known.ID, "estimate_id": chosen, "selected_at": known.selectedAt})
}

func (s *Server) receiveEstimates(r *http.Request) answer {
	e, refused := readBody[webhook.Event](r, members("type timestamp data", map[string]shape{
		"type": oneOf(webhook.TypeEstimated), "timestamp": text("be a moment, hardly ahead", func(text string) bool {
			at, _ := time.Parse(time.RFC3339, text)
			return isMoment(text) && time.Until(at) <= eventSkew
		}),
		"data": members("supplier_id request_id shop_code estimates unavailable", map[string]shape{
			"supplier_id": name(), "shop_code": name(), "estimates": list(0, estimateShape(map[string]bool{})),
			"request_id": value("be the path's", func(v jsontext.Value) bool { return string(v) == r.PathValue("id") }),
			"unavailable": list(0, members("service reason", map[string]shape{"service": name(),
				"reason": notBlank(maxComment)})),
		}),
	}))
	if refused != nil {
		return *refused
	}
	known, refused := s.find(r)
	switch {
	case e.Data.SupplierID != s.SupplierID:
		return refuse(http.StatusNotFound, "There is no such material request.")
	case refused != nil:
		return *refused
	case e.Timestamp.Before(known.since):
	case known.Status == "selected":
		return refuse(http.StatusConflict, "An estimate of this request is selected already.")
	default:
		known.Estimates, known.Unavailable = append([]webhook.Estimate{}, e.Data.Estimates...),
			append([]webhook.Unavailable{}, e.Data.Unavailable...)
		known.since, known.Failure = e.Timestamp, nil
		known.become("estimated")
	}
	return ok(map[string]any{"status": "estimated", "id": known.ID})
}
