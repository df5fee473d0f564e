package materials

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	workMessages       = 64               // messages that are worked on together
	workBatch          = 128              // requests that share a transaction
	workBytes          = 2 << 20          // of bodies that are in memory at a time
	workStoreTimeout   = 15 * time.Second // for each of a batch's two visits to the database
	poisonedDeliveries = 10               // after so many a request that cannot be estimated is given up
)

// Work estimates the requests that the message names and hands their events to the outbox, exactly once however often
// the work comes. nil means acknowledge; with an error the queue is to deliver the work again: what is done by then is
// not done again.
func (s *Service) Work(ctx context.Context, w Work) error {
	keys, ok := w.keys()
	if !ok {
		s.deps.Log.WarnContext(ctx, "malformed work is dropped", "subject", w.Subject)
		return nil
	}
	failures, err := s.worker.Do(ctx, keys)
	if err != nil {
		return fmt.Errorf("estimate material requests: %w", err)
	}
	var left []error
	for i, err := range failures {
		if _, poison := errors.AsType[*poisonError](err); poison && w.Deliveries >= poisonedDeliveries {
			err = s.giveUp(ctx, keys[i], err)
		}
		if err != nil {
			left = append(left, fmt.Errorf("estimate material request %d: %w", keys[i].ID, err))
		}
	}
	return errors.Join(left...)
}

// giveUp fails a request that no estimation got through, so that it stops coming back.
func (s *Service) giveUp(ctx context.Context, key requestKey, cause error) error {
	traceID, moved, err := s.failUnlessStored(ctx, key, cause.Error())
	if err != nil {
		return fmt.Errorf("give it up: %w", errors.Join(err, cause))
	}
	if moved {
		s.deps.Log.ErrorContext(key.context(ctx, traceID), "material request failed: it cannot be estimated", "error", cause)
	}
	return nil
}

// failUnlessStored moves a request to failed, unless its event is stored after all.
func (s *Service) failUnlessStored(ctx context.Context, key requestKey, reason string) (traceID string, moved bool, err error) {
	round, err := s.store.round(ctx, key)
	if err != nil {
		return "", false, err
	}
	stored, err := s.deps.Outbox.Stored(ctx, []string{key.event(round)})
	if err != nil || len(stored) > 0 {
		return "", false, err
	}
	return s.store.fail(ctx, key, failureText(reason), s.deps.Now())
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

// pending is a request on its way through a batch: it ends with an event or with err.
type pending struct {
	Request
	round int64
	event webhook.Event
	body  []byte // the event as JSON
	err   error
}

func newWorkerBatcher(s *Service) *groupcommit.Batcher[[]requestKey, []error] {
	return groupcommit.New(s.deps.Flushers, workMessages, 0, s.flushWork)
}

// flushWork estimates the requests of some messages and tells for each which failed. The batch belongs to no single
// caller, so nothing of its context is used.
func (s *Service) flushWork(_ context.Context, messages [][]requestKey) ([][]error, error) {
	var keys []requestKey
	known := make(map[requestKey]bool)
	for _, key := range slices.Concat(messages...) {
		if !known[key] {
			known[key] = true
			keys = append(keys, key)
		}
	}
	failures := make(map[requestKey]error)
	for len(keys) > 0 {
		n, done := s.deps.Outbox.Reserve(min(len(keys), workBatch))
		rest, err := s.workOn(keys[:n], failures)
		if err != nil && groupcommit.NotAway(err) {
			rest, err = nil, s.workOnEach(keys[:n], failures)
		}
		done()
		if err != nil {
			return nil, err
		}
		keys = append(rest, keys[n:]...)
	}
	results := make([][]error, len(messages))
	for i, message := range messages {
		results[i] = make([]error, len(message))
		for n, key := range message {
			results[i][n] = failures[key]
		}
	}
	return results, nil
}

// workOnEach estimates the requests one by one, so that one that the database refuses fails alone.
func (s *Service) workOnEach(keys []requestKey, failures map[requestKey]error) error {
	for i := range keys {
		_, err := s.workOn(keys[i:i+1], failures)
		if err != nil && !groupcommit.NotAway(err) {
			return err
		}
		if err != nil {
			failures[keys[i]] = err
		}
	}
	return nil
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
