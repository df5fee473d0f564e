package notify

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/supplyhub/supplyhub/internal/notice"
)

// mostIDs is how many ids an event names.
const mostIDs = 20

// event is what the operator's receiver gets, once it is sent.
type event struct {
	id, kind, supplierID, supplierName, pausedBy string
	count                                        int64
	ids                                          []string
	lastError                                    string
	at, due                                      time.Time
	attempts                                     int64
}

// open reports whether the event still takes in what happens at the given time.
func (e *event) open(at time.Time) bool { return at.Before(e.at.Add(window)) }

func (e *event) takeIn(n stored) {
	e.count++
	if n.Subject != "" && len(e.ids) < mostIDs {
		e.ids = append(e.ids, n.Subject)
	}
	if n.Error != "" {
		e.lastError = n.Error
	}
}

// body returns the event as JSON, the same on every attempt.
func (e *event) body() ([]byte, error) {
	type data struct {
		SupplierID   string  `json:"supplier_id"`
		SupplierName string  `json:"supplier_name"`
		Count        int64   `json:"count"`
		IDs          []any   `json:"ids"`
		LastError    *string `json:"last_error"`
		PausedBy     string  `json:"paused_by,omitempty"`
	}
	d := data{SupplierID: e.supplierID, SupplierName: e.supplierName, Count: e.count, IDs: make([]any, len(e.ids)),
		PausedBy: e.pausedBy}
	for i, id := range e.ids {
		d.IDs[i] = id
		if number, err := strconv.ParseInt(id, 10, 64); e.kind == notice.RequestFailed && err == nil {
			d.IDs[i] = number // as the callers know their requests
		}
	}
	if e.lastError != "" {
		d.LastError = &e.lastError
	}
	body, err := json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      data      `json:"data"`
	}{e.kind, e.at.UTC().Truncate(time.Second), d})
	if err != nil {
		return nil, fmt.Errorf("encode operator event: %w", err)
	}
	return body, nil
}
