package notify

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Gathering takes notices from the database in one transaction and leaves events in it. An event about one receiver's
// state is sent at once. Dead deliveries and failed requests come by the thousand when something is down, so those of
// a supplier within the window are one event, which takes more in until it is first attempted.

// gatherBatch is how many notices are put into events at once.
const gatherBatch = 2000

// gather puts notices into events, in one process at a time.
func (d *Notifier) gather(ctx context.Context) (busy bool, err error) {
	if waiting, err := d.store.anyNotice(ctx); err != nil || !waiting {
		return false, err
	}
	err = d.deps.DB.InTx(ctx, "gather notices", func(ctx context.Context) error {
		held, err := d.deps.DB.TryLock(ctx, "operator notices")
		if err != nil || !held {
			return err
		}
		notices, err := d.store.take(ctx, gatherBatch)
		if err != nil || len(notices) == 0 {
			return err
		}
		busy = len(notices) == gatherBatch
		return d.put(ctx, notices)
	})
	return busy, err
}

// put adds notices, in the order in which they came, to the open events of their suppliers, or begins new ones.
func (d *Notifier) put(ctx context.Context, notices []stored) error {
	ids := lists.Of(notices, func(n stored) string { return n.SupplierID })
	names, err := d.deps.Names(ctx, slices.Compact(slices.Sorted(slices.Values(ids))))
	if err != nil {
		return err
	}
	type key struct{ kind, supplierID string }
	known, err := d.store.openEvents(ctx, d.deps.Now())
	if err != nil {
		return err
	}
	open := lists.By(known, func(e *event) key { return key{e.kind, e.supplierID} })
	changed := map[*event]bool{}
	for _, n := range notices {
		k := key{n.Type, n.SupplierID}
		e := open[k]
		if e == nil || !summed(n.Notice) || !e.open(n.at) {
			e = newEvent(n, names[n.SupplierID])
			if summed(n.Notice) {
				open[k] = e
			}
		}
		e.takeIn(n)
		changed[e] = true
	}
	return d.store.save(ctx, changed)
}

// TestEvent returns an event without a supplier, by which the operator's receiver is tried.
func TestEvent(now time.Time) (id string, body []byte, err error) {
	e := newEvent(stored{Notice: notice.Notice{Type: webhook.TypeTest}, at: now}, "")
	body, err = e.body()
	return e.id, body, err
}

// newEvent begins an event with its first notice.
func newEvent(n stored, name string) *event {
	e := &event{
		id: "msg_operator_" + strings.ToLower(rand.Text()), kind: n.Type, supplierID: n.SupplierID, supplierName: name,
		pausedBy: n.PausedBy, at: n.at, due: n.at,
	}
	if summed(n.Notice) {
		e.due = n.at.Add(window + settle)
	}
	return e
}

// stored is a notice with its moment, as it is stored and as a time.
type stored struct {
	notice.Notice
	id, micros int64
	at         time.Time
}

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

// open reports whether the event still covers the given time.
func (e *event) open(at time.Time) bool { return at.Before(e.at.Add(window)) }

// takeIn adds a notice to an event that sums up. It keeps the first 20 ids and the last error.
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
	return body, errs.Doing("encode operator event", err)
}
