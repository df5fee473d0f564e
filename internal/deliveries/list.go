package deliveries

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

// Lists of deliveries. The supplier and the operator read them; redelivery, recovery and retention go through their
// pages and change rows. store.page reads each page behind a key, so a page costs its own rows at any depth. A row that
// is there from the first page to the last is on exactly one, whatever comes, changes or goes meanwhile. A list holds
// no lock and no transaction between two pages: code that changes rows locks them and looks once more.

const (
	eachPage     = 500  // deliveries that one statement of Each reads
	looked       = 5000 // deliveries that one page looks at when no index has just those that are chosen
	eventsAtOnce = 1000
)

// statuses are all of them: a list of any status is merged from these.
var statuses = []Status{Pending, Delivered, Dead, Failed}

// Filter chooses deliveries. A zero field excludes nothing.
type Filter struct {
	Receiver   string  // to the receiver of this supplier; empty: to all destinations
	SupplierID string  // of requests of this supplier
	Requests   []int64 // of all rounds of those requests, by uid in the order of the list
	Status     Status
	Since      time.Time // made then or later …
	Until      time.Time // … and before

	unchanged time.Time // as they are since then or longer
	oldest    bool      // the oldest first
	rested    bool      // but for those delivered that were sent again within the last restAgain
}

// of returns the statuses that the filter chooses.
func (f Filter) of() []Status {
	if f.Status == "" {
		return statuses
	}
	return []Status{f.Status}
}

// looks reports whether a page has to look at deliveries to choose them, because no index has just those. Such a page
// stops after looking at a fixed number (looked). It may be short or empty, and has a key for the next one.
func (f Filter) looks() bool {
	return f.SupplierID != "" || !f.Since.IsZero() || !f.Until.IsZero() || !f.unchanged.IsZero()
}

// times returns what bounds when the deliveries were made, and last changed.
func (f Filter) times() (since, until, unchanged int64) {
	until, unchanged = math.MaxInt64, math.MaxInt64
	if !f.Since.IsZero() {
		since = micros(f.Since)
	}
	if !f.Until.IsZero() {
		until = micros(f.Until)
	}
	if !f.unchanged.IsZero() {
		unchanged = f.unchanged.UnixMicro()
	}
	return since, until, unchanged
}

// micros rounds up: nothing that is before the moment is at it.
func micros(at time.Time) int64 { return at.Add(time.Microsecond - 1).UnixMicro() }

// chooses reports whether the filter chooses a row among those that it was looked for. The indexes chose most of them
// already; a row read by its id, or changed between two statements of a page, is judged here alone.
func (f Filter) chooses(r deliveryRow) bool {
	since, until, unchanged := f.times()
	return (f.Status == "" || r.Status == f.Status) && (f.SupplierID == "" || r.SupplierID == f.SupplierID) &&
		(f.Receiver == "" || r.Destination == f.Receiver) && r.CreatedAt.UnixMicro() >= since &&
		r.CreatedAt.UnixMicro() < until && r.UpdatedAt.UnixMicro() <= unchanged
}

// Key is the place of a delivery in a list. Lists follow the order in which requests were accepted, the newest first,
// and then the order of their rounds. The zero Key is where a list begins, and where it ends.
type Key struct{ UID, Round, Kind int64 }

// IsZero reports whether the key is where a list begins, or ends.
func (k Key) IsZero() bool { return k == Key{} }

// key returns the place of a row in every list. It never changes, whatever happens to the delivery.
func (r deliveryRow) key() Key {
	if r.Destination == OwnEndpoint {
		return Key{r.uid, r.Round, int64(round.OwnEndpoint)}
	}
	return Key{r.uid, r.Round, int64(round.Receiver)}
}

func (k Key) compare(other Key) int {
	return cmp.Or(cmp.Compare(k.UID, other.UID), cmp.Compare(k.Round, other.Round), cmp.Compare(k.Kind, other.Kind))
}

// List returns at most limit of the deliveries that the filter chooses, those behind a key, and the key that the next
// page is behind. A page that has looked at many which are not chosen is short, or empty, with a key for the next one.
func (d *Keeper) List(ctx context.Context, filter Filter, behind Key, limit int) (
	page []Delivery, next Key, err error) {
	rows, next, err := d.store.page(ctx, filter, behind, limit)
	return ofRows(rows), next, err
}

// Each hands the deliveries that the filter chooses to fn, page by page, at most limit of them; 0: all. It ends with
// fn's error.
func (d *Keeper) Each(ctx context.Context, filter Filter, limit int, fn func(Delivery) error) error {
	if limit == 0 {
		limit = math.MaxInt
	}
	for behind, more := (Key{}), true; more; {
		page, next, err := d.List(ctx, filter, behind, min(limit, eachPage))
		if err != nil {
			return err
		}
		for _, one := range page {
			if err := fn(one); err != nil {
				return err
			}
		}
		limit -= len(page)
		behind, more = next, !next.IsZero() && limit > 0
	}
	return nil
}
