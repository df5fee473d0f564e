package clienttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// request is a material request in the form in which it is answered.
type request struct {
	ID          int64                 `json:"id"`
	ShopCode    string                `json:"shop_code"`
	Comment     *string               `json:"comment"`
	Materials   []item                `json:"materials"`
	Status      string                `json:"status"`
	CreatedAt   time.Time             `json:"created_at"`
	UpdatedAt   time.Time             `json:"updated_at"`
	Estimates   []webhook.Estimate    `json:"estimates"`
	Unavailable []webhook.Unavailable `json:"unavailable"`
	Selected    *string               `json:"selected_estimate_id"`
	Failure     *string               `json:"failure"`

	canonical  []byte
	round      int
	selectedAt time.Time
	changed    chan struct{} // closed when the status changes
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
	fresh := &request{Estimates: []webhook.Estimate{}, Unavailable: []webhook.Unavailable{}, changed: make(chan struct{}),
		round: 1}
	if refused := readBody(r, fresh.read); refused != nil {
		return *refused
	}
	if repeated := duplicates(fresh.Materials); len(repeated) > 0 {
		return answer{status: http.StatusUnprocessableEntity,
			body: map[string]any{"message": "Duplicate material items are not allowed.", "duplicates": repeated}}
	}
	canonical, err := json.Marshal([]any{fresh.ID, fresh.ShopCode, fresh.Comment, fresh.Materials})
	if err != nil {
		return refuse(http.StatusInternalServerError, err.Error())
	}
	fresh.canonical = canonical
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.requests[fresh.ID]; known != nil {
		if !bytes.Equal(known.canonical, canonical) {
			return refuse(http.StatusConflict, "You have another request with this id.")
		}
		return enqueued(http.StatusCreated, fresh.ID)
	}
	fresh.Status, fresh.CreatedAt, fresh.UpdatedAt = "enqueued", time.Now().UTC(), time.Now().UTC()
	s.requests[fresh.ID] = fresh
	s.order = append(s.order, fresh.ID)
	s.estimateSoon(r.Context(), fresh)
	return enqueued(http.StatusCreated, fresh.ID)
}

func enqueued(status int, id int64) answer {
	return answer{status: status, body: map[string]any{"status": "enqueued", "id": id}}
}

func (r *request) read(c *check, f fields) {
	if id := c.integer(f, "", "id", math.MinInt64, math.MaxInt64, true); id != nil {
		r.ID = *id
	}
	r.ShopCode = c.name(f, "", "shop_code", true)
	if r.Comment = c.text(f, "", "comment", false); r.Comment != nil && utf8.RuneCountInString(*r.Comment) > maxComment {
		c.at("/comment", fmt.Sprintf("must have at most %d characters", maxComment))
	}
	value := c.member(f, "", "materials", true)
	if value == nil {
		return
	}
	var items []jsontext.Value
	if err := json.Unmarshal(value, &items); err != nil {
		c.at("/materials", "must be an array")
		return
	}
	if len(items) == 0 {
		c.at("/materials", "must have at least one item")
	}
	for i, text := range items {
		at := "/materials/" + strconv.Itoa(i)
		if members := c.object(at, text); members != nil {
			r.Materials = append(r.Materials, readItem(c, members, at))
		}
	}
}

func readItem(c *check, f fields, at string) item {
	m := item{
		MaterialVariantID: c.integer(f, at, "material_variant_id", math.MinInt64, math.MaxInt64, false),
		MaterialVariant:   c.text(f, at, "material_variant", false),
		Material:          c.name(f, at, "material", true), SKU: c.name(f, at, "sku", true),
		Depth: c.number(f, at, "depth", maxSize, false),
	}
	if id := c.integer(f, at, "material_id", math.MinInt64, math.MaxInt64, true); id != nil {
		m.MaterialID = *id
	}
	if width := c.number(f, at, "width", maxSize, true); width != nil {
		m.Width = *width
	}
	if height := c.number(f, at, "height", maxSize, true); height != nil {
		m.Height = *height
	}
	if quantity := c.integer(f, at, "quantity", 1, math.MaxInt32, true); quantity != nil {
		m.Quantity = *quantity
	}
	return m
}

type duplicate struct {
	MaterialID        int64  `json:"materialId"`
	MaterialVariantID *int64 `json:"materialVariantId"`
	SKU               string `json:"sku"`
}

// duplicates returns the repeated combinations, each once.
func duplicates(items []item) []duplicate {
	seen := map[string]int{}
	var repeated []duplicate
	for _, m := range items {
		variant := "null"
		if m.MaterialVariantID != nil {
			variant = strconv.FormatInt(*m.MaterialVariantID, 10)
		}
		key := fmt.Sprint(m.MaterialID, " ", variant, " ", m.SKU)
		if seen[key]++; seen[key] == 2 {
			repeated = append(repeated, duplicate{m.MaterialID, m.MaterialVariantID, m.SKU})
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
	a := refuse(http.StatusNotFound, "There is no such material request.")
	return nil, &a
}

const longestWait = time.Minute

func (s *Server) getRequest(r *http.Request) answer {
	q, refused := query(r)
	if refused != nil {
		return *refused
	}
	c := &check{}
	var wait time.Duration
	if text := c.parameter(q, "wait"); text != "" {
		var err error
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > longestWait {
			c.in("wait", "must be a duration of at most 60s, such as 30s, given once")
		}
	}
	if len(c.found) > 0 {
		return refuse(http.StatusBadRequest, "The parameters are not valid.", c.found...)
	}
	s.mu.Lock()
	known, refused := s.find(r)
	if refused == nil && known.Status == "enqueued" && wait > 0 {
		changed := known.changed
		s.mu.Unlock()
		waitFor(r.Context(), changed, wait)
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if refused != nil {
		return *refused
	}
	return ok(*known)
}

func waitFor(ctx context.Context, changed <-chan struct{}, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *Server) listRequests(r *http.Request) answer {
	q, refused := query(r)
	if refused != nil {
		return *refused
	}
	c := &check{}
	status := c.parameterOf(q, "status", "enqueued", "estimated", "selected", "failed")
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []placed[request]
	for place, id := range slices.Backward(s.order) {
		if known := s.requests[id]; status == "" || known.Status == status {
			list = append(list, placed[request]{place, *known})
		}
	}
	return listing(c, r, q, list, "status")
}

func (s *Server) listOrders(r *http.Request) answer {
	q, refused := query(r)
	if refused != nil {
		return *refused
	}
	type order struct {
		SupplierID string `json:"supplier_id"`
		request
		SelectedEstimate webhook.Estimate `json:"selected_estimate"`
		SelectedAt       time.Time        `json:"selected_at"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []placed[order]
	for place, id := range slices.Backward(s.selected) {
		known := s.requests[id]
		list = append(list, placed[order]{place, order{SupplierID: s.SupplierID, request: *known,
			SelectedEstimate: known.estimate(*known.Selected), SelectedAt: known.selectedAt}})
	}
	return listing(&check{}, r, q, list)
}

func (r *request) estimate(id string) webhook.Estimate {
	i := slices.IndexFunc(r.Estimates, func(e webhook.Estimate) bool { return e.EstimateID == id })
	if i < 0 {
		return webhook.Estimate{}
	}
	return r.Estimates[i]
}

func (s *Server) reestimate(r *http.Request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
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
		s.estimateSoon(r.Context(), known)
	}
	return enqueued(http.StatusAccepted, known.ID)
}

func (s *Server) selectEstimate(r *http.Request) answer {
	var chosen string
	if refused := readBody(r, func(c *check, f fields) {
		if text := c.text(f, "", "estimate_id", true); text != nil {
			if chosen = *text; strings.TrimSpace(chosen) == "" {
				c.at("/estimate_id", "must not be blank")
			}
		}
	}); refused != nil {
		return *refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, refused := s.find(r)
	switch {
	case refused != nil:
		return *refused
	case known.Status == "selected" && *known.Selected != chosen:
		return refuse(http.StatusConflict, "Another estimate of this request is selected already.")
	case known.Status != "selected" && known.Status != "estimated":
		return refuse(http.StatusConflict, "The request has no estimates yet.")
	case known.Status == "estimated":
		pointer := "/estimate_id"
		e := known.estimate(chosen)
		if e.EstimateID == "" {
			return refuse(http.StatusUnprocessableEntity, "The estimate cannot be selected.",
				violation{Pointer: &pointer, Detail: "is not an estimate of this request"})
		}
		if time.Now().After(e.ValidUntil) {
			return refuse(http.StatusUnprocessableEntity, "The estimate cannot be selected.",
				violation{Pointer: &pointer, Detail: "is past its valid_until"})
		}
		known.Selected, known.selectedAt = &chosen, time.Now().UTC()
		s.selected = append(s.selected, known.ID)
		known.become("selected")
	}
	return ok(map[string]any{"status": "selected", "id": known.ID, "estimate_id": chosen, "selected_at": known.selectedAt})
}

func (s *Server) receiveEstimates(r *http.Request) answer {
	var e webhook.Event
	if refused := readBody(r, func(c *check, f fields) {
		text, err := json.Marshal(f)
		if err == nil {
			err = json.Unmarshal(text, &e)
		}
		if err != nil || e.Type != webhook.TypeEstimated || e.Timestamp.IsZero() ||
			strconv.FormatInt(e.Data.RequestID, 10) != r.PathValue("id") {
			c.at("", "must be an event of the path's request")
		}
	}); refused != nil {
		return *refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, refused := s.find(r)
	switch {
	case refused != nil:
		return *refused
	case known.Status == "selected":
		return refuse(http.StatusConflict, "An estimate of this request is selected already.")
	}
	known.Estimates, known.Unavailable = append([]webhook.Estimate{}, e.Data.Estimates...),
		append([]webhook.Unavailable{}, e.Data.Unavailable...)
	known.become("estimated")
	return ok(map[string]any{"status": "estimated", "id": known.ID})
}
