package materials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
	eventAt int64           // of the stored estimates
	seen    map[string]bool // webhook-ids taken before
	latest  *receiptItem    // what this batch stores, nil for nothing
}

// apply decides on one event and changes the state accordingly. A nil state is an unknown request.
func (r *receiptState) apply(item receiptItem) receiptResult {
	switch {
	case r == nil:
		return receiptUnknown
	case item.webhookID != "" && r.seen[item.webhookID]:
		return receiptRepeated
	case item.eventAt < r.eventAt:
		r.seen[item.webhookID] = true
		return receiptStale
	case !r.status.CanBecome(Estimated):
		return receiptTooLate
	default:
		r.seen[item.webhookID] = true
		r.status, r.eventAt, r.latest = Estimated, item.eventAt, &item
		return receiptStored
	}
}

func newReceiptState(status Status) *receiptState {
	return &receiptState{status: status, eventAt: math.MinInt64, seen: make(map[string]bool)}
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
	return groupcommit.New(1, receiptBatch, receiptLinger, notAway, s.flushReceipts)
}

// flushReceipts decides on a batch of events, in their order, while it holds the requests' rows. The batch belongs
// to no single caller, so nothing of its context is used.
func (s *Service) flushReceipts(_ context.Context, items []receiptItem) ([]receiptResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), receiptTimeout)
	defer cancel()
	results := make([]receiptResult, len(items))
	err := s.deps.DB.InTx(ctx, func(ctx context.Context) error {
		states, err := s.store.lockReceipts(ctx, items)
		if err != nil {
			return err
		}
		var remembered []receiptItem
		for i, item := range items {
			results[i] = states[item.requestKey].apply(item)
			taken := results[i] == receiptStored || results[i] == receiptStale
			if taken && item.webhookID != "" {
				remembered = append(remembered, item)
			}
		}
		var stored []receiptItem
		for _, state := range states {
			if state.latest != nil {
				stored = append(stored, *state.latest)
			}
		}
		return s.store.saveReceipts(ctx, remembered, stored, s.deps.Now())
	})
	if err != nil {
		return nil, fmt.Errorf("store received estimates: %w", err)
	}
	for i, item := range items {
		if results[i] == receiptStored {
			s.waiters.tell(item.requestKey)
		}
	}
	return results, nil
}
