package materials

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	workBatch          = 128              // requests that share a transaction
	workBytes          = 2 << 20          // of bodies that are in memory at a time
	workStoreTimeout   = 15 * time.Second // for each of a batch's two visits to the database
	poisonedDeliveries = 10               // after so many a request that cannot be estimated is given up
)

// Subject is the name of a request's work on the queue.
func Subject(supplierID string, id int64) string {
	return "mr." + supplierID + "." + strconv.FormatInt(id, 10)
}

// parseSubject is the inverse of Subject; ok is false for any other text.
func parseSubject(subject string) (key requestKey, ok bool) {
	rest, found := strings.CutPrefix(subject, "mr.")
	supplierID, number, split := strings.Cut(rest, ".")
	if !found || !split || supplierID == "" || !utf8.ValidString(supplierID) {
		return requestKey{}, false
	}
	if strings.ContainsFunc(supplierID, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return requestKey{}, false
	}
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != number {
		return requestKey{}, false
	}
	return requestKey{supplierID, id}, true
}

// Work is one message of the queue.
type Work struct {
	Subject    string // as Subject makes it
	RequestID  string // X-Request-Id of the call that caused it
	Deliveries int    // how many times the queue has handed it out, this one included
}

// Work estimates the request that the message names and hands its event to the outbox, exactly once however often
// the work comes. nil means acknowledge; with an error the queue is to deliver the work again.
func (s *Service) Work(ctx context.Context, w Work) error {
	if w.RequestID != "" && logctx.RequestID(ctx) != w.RequestID {
		ctx = logctx.WithRequestID(ctx, w.RequestID)
	}
	key, ok := parseSubject(w.Subject)
	if !ok {
		s.deps.Log.WarnContext(ctx, "work with a malformed subject is dropped", "subject", w.Subject)
		return nil
	}
	ctx = logctx.With(ctx, slog.String("supplier_id", key.SupplierID), slog.Int64("material_request_id", key.ID))
	result, err := s.worker.Do(ctx, workItem{key})
	if err == nil {
		err = result
	}
	if err == nil {
		return nil
	}
	if _, poison := errors.AsType[*poisonError](err); poison && w.Deliveries >= poisonedDeliveries {
		return s.giveUp(ctx, key, err)
	}
	return fmt.Errorf("estimate material request: %w", err)
}

// giveUp fails a request that no estimation got through, so that it stops coming back; not when its event is stored
// after all.
func (s *Service) giveUp(ctx context.Context, key requestKey, cause error) error {
	round, err := s.store.round(ctx, key)
	if err != nil {
		return fmt.Errorf("give up material request: %w", errors.Join(err, cause))
	}
	stored, err := s.deps.Outbox.Stored(ctx, []string{key.event(round)})
	if err == nil && len(stored) > 0 {
		return nil
	}
	moved := false
	if err == nil {
		_, moved, err = s.store.fail(ctx, key, failureText(cause.Error()), s.deps.Now())
	}
	if err != nil {
		return fmt.Errorf("give up material request: %w", errors.Join(err, cause))
	}
	if moved {
		s.deps.Log.ErrorContext(ctx, "material request failed: it cannot be estimated", "error", cause)
	}
	return nil
}

// poisonError is a failure that belongs to one request, not to something the service depends on.
type poisonError struct{ cause error }

func (e *poisonError) Error() string { return e.cause.Error() }
func (e *poisonError) Unwrap() error { return e.cause }

// poisoned marks err as the request's own failure, unless a dependency is away.
func poisoned(err error) error {
	if err == nil || errs.KindOf(err) == errs.Unavailable {
		return err
	}
	return &poisonError{err}
}

type workItem struct{ requestKey }

// pending is a request on its way through a batch: it ends with an event or with err.
type pending struct {
	Request
	round int64
	event webhook.Event
	body  []byte // the event as JSON
	err   error
}

func newWorkerBatcher(s *Service) *groupcommit.Batcher[workItem, error] {
	return groupcommit.New(s.deps.Flushers, workBatch, 0, groupcommit.NotAway, s.flushWork)
}

// flushWork estimates a batch. The batch belongs to no single caller, so nothing of its context is used.
func (s *Service) flushWork(_ context.Context, items []workItem) ([]error, error) {
	keys := make([]requestKey, 0, len(items))
	known := make(map[requestKey]bool, len(items))
	for _, item := range items {
		if !known[item.requestKey] {
			known[item.requestKey] = true
			keys = append(keys, item.requestKey)
		}
	}
	failures := make(map[requestKey]error)
	for len(keys) > 0 {
		n, done := s.deps.Outbox.Reserve(len(keys))
		rest, err := s.workOn(keys[:n], failures)
		done()
		if err != nil {
			return nil, err
		}
		keys = append(rest, keys[n:]...)
	}
	results := make([]error, len(items))
	for i, item := range items {
		results[i] = failures[item.requestKey]
	}
	return results, nil
}

// workOn estimates as many of the requests as fit into memory together and notes which failed; rest are the others.
func (s *Service) workOn(keys []requestKey, failures map[requestKey]error) (rest []requestKey, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), workStoreTimeout)
	defer cancel()
	requests, rest, err := s.store.due(ctx, keys, workBytes)
	if err != nil {
		return nil, err
	}
	s.estimateAll(requests)
	if err := s.dispatch(requests); err != nil {
		return nil, err
	}
	for _, p := range requests {
		failures[p.key()] = p.err
	}
	return rest, nil
}

func (p *pending) key() requestKey { return requestKey{p.SupplierID, p.ID} }

// context says whose work this is on every log line.
func (p *pending) context(ctx context.Context) context.Context {
	return logctx.WithRequestID(ctx, p.TraceID,
		slog.String("supplier_id", p.SupplierID), slog.Int64("material_request_id", p.ID))
}

// dispatch stores the events of the estimated requests, then lets them be sent. A crash before the commit leaves the
// work to be done again; one after it, to the outbox. Of two workers with the same request, one stores and sends: an
// event's key names the request and its round.
func (s *Service) dispatch(requests []*pending) error {
	events := make([]Outgoing, 0, len(requests))
	for _, p := range requests {
		if p.err == nil {
			events = append(events, Outgoing{Key: p.key().event(p.round), TraceID: p.TraceID, Event: p.event, Body: p.body})
		}
	}
	if len(events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), workStoreTimeout)
	defer cancel()
	var send func()
	err := s.deps.DB.InTx(ctx, func(ctx context.Context) (err error) {
		send, err = s.deps.Outbox.Add(ctx, events)
		return err
	})
	if err != nil {
		return fmt.Errorf("hand events to the outbox: %w", err)
	}
	send()
	return nil
}

// event is the key of the event of the request's round.
func (k requestKey) event(round int64) string {
	return k.SupplierID + "/" + strconv.FormatInt(k.ID, 10) + "/" + strconv.FormatInt(round, 10)
}
