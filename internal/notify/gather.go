package notify

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/notice"
)

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
	names, err := d.deps.Names(ctx, suppliersOf(notices))
	if err != nil {
		return err
	}
	type key struct{ kind, supplierID string }
	open := map[key]*event{}
	known, err := d.store.openEvents(ctx, d.deps.Now())
	if err != nil {
		return err
	}
	for _, e := range known {
		open[key{e.kind, e.supplierID}] = e
	}
	var fresh []*event
	changed := map[*event]bool{}
	for _, n := range notices {
		k := key{n.Type, n.SupplierID}
		e := open[k]
		if e == nil || !summed(n.Notice) || !e.open(n.at) {
			e = newEvent(n, names[n.SupplierID])
			fresh = append(fresh, e)
			if summed(n.Notice) {
				open[k] = e
			}
		}
		e.takeIn(n)
		changed[e] = true
	}
	for _, e := range fresh {
		delete(changed, e)
	}
	return d.store.save(ctx, fresh, changed)
}

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

func suppliersOf(notices []stored) []string {
	seen := map[string]bool{}
	var ids []string
	for _, n := range notices {
		if !seen[n.SupplierID] {
			seen[n.SupplierID] = true
			ids = append(ids, n.SupplierID)
		}
	}
	return ids
}

// stored is a notice with its moment.
type stored struct {
	notice.Notice
	at time.Time
}
