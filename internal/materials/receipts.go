package materials

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// The own endpoint takes events. Most are those that our own workers send, each for the round that its request waits
// for: one statement takes a whole batch of them. Everything else (an event once more, of an earlier round, of a
// supplier that estimates by itself, of an unknown request) is decided one by one with the request's row locked.
//
// An event may come twice, late, or after its request was deleted and its id used again. The uid and the number of the
// round decide, never a clock; only events that a supplier posted itself are compared by their timestamp. An event that
// changes nothing is answered 200, so that the sender stops.

const (
	receiptBatch   = 128 // received events that share a transaction
	receiptLinger  = 2 * time.Millisecond
	receiptTimeout = 15 * time.Second // for that transaction
)

// receiptItem is one received event of a request. own: it is the event of the service's own round uid/number; any other
// event is identified by its webhookID, which is not remembered when it is empty, and its timestamp.
type receiptItem struct {
	requestKey
	own         bool
	stored      bool  // it is the stored event as a worker of this service sent it
	uid, number int64 // of the delivery that the webhook-id names; 0 when it names none
	webhookID   string
	postedAt    int64  // Unix microseconds
	estimates   string // JSON array
	unavailable string // JSON array
}

// receiptResult is what became of a received event.
type receiptResult int

const (
	receiptUnknown receiptResult = iota // the supplier has no such request
	receiptStored                       // the estimates are the request's now
	// Received before, or of an earlier round, or of an earlier life of the id: nothing changed.
	receiptObsolete
	// A supplier's own, older than the round or than a newer one of it: only its webhook-id is remembered.
	receiptStale
	receiptTooLate // an estimate is selected already: refused
)

// receiptState is a locked request as the events of one batch change it. Several events of one request are decided on
// in the order in which they came, each by what those before it made of the state; only the last state is written.
type receiptState struct {
	status     Status
	uid, round int64
	received   int64        // the latest round whose own event was received
	began      int64        // when the round began
	postedAt   *int64       // of the latest event of this round that the supplier posted itself, nil when there is none
	webhookIDs string       // the marks of those events' webhook-ids
	latest     *receiptItem // what this batch stores, nil for nothing
}

// apply decides on one event and changes the state accordingly. A nil state is an unknown request.
func (r *receiptState) apply(item receiptItem) receiptResult {
	switch {
	case r == nil:
		return receiptUnknown
	case item.own && (item.uid != r.uid || item.number != r.round), r.knows(item):
		return receiptObsolete
	case !item.own && (item.postedAt < r.began-eventSkew.Microseconds() ||
		r.postedAt != nil && item.postedAt < *r.postedAt):
		r.webhookIDs += item.mark()
		return receiptStale
	case !r.status.CanBecome(Estimated):
		return receiptTooLate
	case item.own:
		r.received = item.number
	default:
		r.webhookIDs += item.mark()
		r.postedAt = &item.postedAt
	}
	r.status, r.latest = Estimated, &item
	return receiptStored
}

// knows reports whether an event of that webhook-id was received before. Own events are known by their round's number,
// as each round has one; those that a supplier posted itself by the webhook-ids that the row remembers.
func (r *receiptState) knows(item receiptItem) bool {
	return item.number != 0 && item.uid == r.uid && item.number <= r.received ||
		!item.own && item.webhookID != "" && strings.Contains(r.webhookIDs, item.mark())
}

// receive records an event durably. errs.NotFound: no such request of that supplier; errs.Conflict: an estimate is
// selected already. An event that changes nothing, repeated, of an earlier round or older than the stored one, is no
// error.
func (s *Service) receive(ctx context.Context, item receiptItem) error {
	result, err := s.receipts.Hold(ctx, item)
	switch {
	case err != nil:
		return fmt.Errorf("record estimates: %w", err)
	case result == receiptUnknown:
		return unknownRequest()
	case result == receiptTooLate:
		return errs.New(errs.Conflict, "An estimate of this request is selected already.")
	default:
		return nil
	}
}

// newReceiptBatcher starts the batches of received events, one at a time: two would wait for each other's rows.
func newReceiptBatcher(s *Service) *groupcommit.Batcher[receiptItem, receiptResult] {
	return groupcommit.New(1, receiptBatch, receiptLinger, s.flushReceipts)
}

// flushReceipts takes a batch of events. Nearly all are the own ones of their requests' rounds, which one statement
// takes; the others are decided on one by one. The batch belongs to no single caller, so nothing of its context is
// used. The two are separate transactions. Where one of them fails the events are taken one by one (groupcommit), and
// those that the first one took are found received before.
func (s *Service) flushReceipts(_ context.Context, items []receiptItem) ([]receiptResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), receiptTimeout)
	defer cancel()
	results := make([]receiptResult, len(items))
	taken, err := s.store.takeReceipts(ctx, ownReceipts(items), s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("store received estimates: %w", err)
	}
	var rest []int // places of items
	for i, item := range items {
		if item.own && taken[item.requestKey] {
			results[i] = receiptStored
			s.waiters.notify(item.requestKey)
			delete(taken, item.requestKey)
		} else {
			rest = append(rest, i)
		}
	}
	if err := s.decideReceipts(ctx, items, rest, results); err != nil {
		return nil, fmt.Errorf("store received estimates: %w", err)
	}
	for _, place := range rest {
		if results[place] == receiptStored {
			s.waiters.notify(items[place].requestKey)
		}
	}
	return results, nil
}

// ownReceipts returns the first own event of each request, in the one order in which all batches lock.
func ownReceipts(items []receiptItem) []receiptItem {
	own := slices.DeleteFunc(slices.Clone(items), func(item receiptItem) bool { return !item.own })
	return firstOfEach(own, func(item receiptItem) requestKey { return item.requestKey })
}

// decideReceipts decides on the events at the given places, in their order, while it holds the requests' rows. A
// selection, a re-estimate or retention of one of them waits for this transaction, or it waits for theirs.
func (s *Service) decideReceipts(ctx context.Context, items []receiptItem, places []int,
	results []receiptResult) error {
	if len(places) == 0 {
		return nil
	}
	keys := lists.Of(places, func(place int) requestKey { return items[place].requestKey })
	return s.deps.DB.InTx(ctx, "receive estimates", func(ctx context.Context) error {
		states, err := s.store.lockReceipts(ctx, keys)
		if err != nil {
			return err
		}
		changed := map[requestKey]*receiptState{}
		for _, place := range places {
			state := states[items[place].requestKey]
			results[place] = state.apply(items[place])
			if results[place] == receiptStored || results[place] == receiptStale {
				changed[items[place].requestKey] = state
			}
		}
		for key, state := range changed {
			if err := s.store.saveReceipt(ctx, key, state, s.deps.Now()); err != nil {
				return err
			}
		}
		return nil
	})
}

// OrEmpty returns an empty list in place of nil, which JSON would show as null.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
