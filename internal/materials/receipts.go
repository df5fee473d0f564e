package materials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	receiptBatch   = 128 // received events that share a transaction
	receiptLinger  = 2 * time.Millisecond
	receiptTimeout = 15 * time.Second // for that transaction
)

// receiptItem is one received event of a request. An empty webhookID is not remembered.
type receiptItem struct {
	requestKey
	webhookID   string
	eventAt     int64  // Unix microseconds
	estimates   string // JSON array
	unavailable string // JSON array
}

// receiptResult is what became of a received event.
type receiptResult int

const (
	receiptUnknown  receiptResult = iota // the supplier has no such request
	receiptStored                        // the estimates are the request's now
	receiptRepeated                      // this webhook-id was taken before: nothing changed
	receiptStale                         // newer estimates are stored: nothing changed
	receiptTooLate                       // an estimate is selected already: refused
)

// receiptState is a locked request as the events of one batch change it.
type receiptState struct {
	status  Status
	eventAt int64        // of the stored estimates
	taken   string       // the marks of the webhook-ids taken before
	latest  *receiptItem // what this batch stores, nil for nothing
}

// apply decides on one event and changes the state accordingly. A nil state is an unknown request.
func (r *receiptState) apply(item receiptItem) receiptResult {
	switch {
	case r == nil:
		return receiptUnknown
	case item.webhookID != "" && strings.Contains(r.taken, item.mark()):
		return receiptRepeated
	case item.eventAt < r.eventAt:
		r.taken += item.mark()
		return receiptStale
	case !r.status.CanBecome(Estimated):
		return receiptTooLate
	default:
		r.taken += item.mark()
		r.status, r.eventAt, r.latest = Estimated, item.eventAt, &item
		return receiptStored
	}
}

func newReceiptState(status Status) *receiptState {
	return &receiptState{status: status, eventAt: math.MinInt64}
}

// receive records an event durably. errs.NotFound: no such request of that supplier; errs.Conflict: an estimate is
// selected already. An event that changes nothing, repeated or older than the stored one, is no error.
func (s *Service) receive(ctx context.Context, webhookID string, event webhook.Event) error {
	estimates, err := json.Marshal(orEmpty(event.Data.Estimates))
	if err != nil {
		return fmt.Errorf("encode estimates: %w", err)
	}
	unavailable, err := json.Marshal(orEmpty(event.Data.Unavailable))
	if err != nil {
		return fmt.Errorf("encode unavailable services: %w", err)
	}
	result, err := s.receipts.Do(ctx, receiptItem{
		requestKey: requestKey{event.Data.SupplierID, event.Data.RequestID}, webhookID: webhookID,
		eventAt: event.Timestamp.UnixMicro(), estimates: string(estimates), unavailable: string(unavailable),
	})
	switch {
	case errors.Is(err, groupcommit.ErrClosed):
		return errs.Away("The service is stopping.", time.Second, err)
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

func newReceiptBatcher(s *Service) *groupcommit.Batcher[receiptItem, receiptResult] {
	return groupcommit.New(1, receiptBatch, receiptLinger, s.flushReceipts)
}

// flushReceipts takes a batch of events. Nearly all are the first of their requests, which one statement takes; the
// others are decided on one by one. The batch belongs to no single caller, so nothing of its context is used.
func (s *Service) flushReceipts(_ context.Context, items []receiptItem) ([]receiptResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), receiptTimeout)
	defer cancel()
	results := make([]receiptResult, len(items))
	taken, err := s.store.takeReceipts(ctx, firstReceipts(items), s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("store received estimates: %w", err)
	}
	var rest []int // places of items
	for i, item := range items {
		if taken[item.requestKey] {
			results[i] = receiptStored
			delete(taken, item.requestKey)
		} else {
			rest = append(rest, i)
		}
	}
	if err := s.decideReceipts(ctx, items, rest, results); err != nil {
		return nil, fmt.Errorf("store received estimates: %w", err)
	}
	for i, item := range items {
		if results[i] == receiptStored {
			s.waiters.tell(item.requestKey)
		}
	}
	return results, nil
}

// firstReceipts are the first event of each request, in the one order in which all batches lock.
func firstReceipts(items []receiptItem) []receiptItem {
	first := slices.Clone(items)
	slices.SortStableFunc(first, func(a, b receiptItem) int { return a.requestKey.compare(b.requestKey) })
	return slices.CompactFunc(first, func(a, b receiptItem) bool { return a.requestKey == b.requestKey })
}

// decideReceipts decides on the events at the given places, in their order, while it holds the requests' rows.
func (s *Service) decideReceipts(ctx context.Context, items []receiptItem, places []int, results []receiptResult) error {
	if len(places) == 0 {
		return nil
	}
	keys := make([]requestKey, len(places))
	for i, place := range places {
		keys[i] = items[place].requestKey
	}
	return s.deps.DB.InTx(ctx, func(ctx context.Context) error {
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
