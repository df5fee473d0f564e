package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Working on a message, step by step: its rounds join a batch with those of other messages; the requests that still
// wait for that round are read; each is estimated, outside of any transaction; then one transaction stores an event
// for each round and its deliveries; only then is the message acknowledged. A worker that dies anywhere before the
// COMMIT leaves everything to be done again by another one. After it the sender has the event; the request keeps its
// ticket until the own endpoint has the estimates, and work that comes once more before that finds the event stored
// and clears the ticket.
//
// Two workers may have the same round, when a message was taken for lost. Both estimate it, and the event's key lets
// one store it.

const (
	workMessages     = 64               // messages that are worked on together
	workBatch        = 128              // requests that share a transaction
	workBytes        = 2 << 20          // of bodies that are in memory at a time
	workStoreTimeout = 15 * time.Second // for each of a batch's two visits to the database
	workStale        = 5 * time.Second  // after which what was read may be gone
)

// Work estimates the rounds that the message names and hands their events to the outbox, exactly once however often the
// work comes. nil means acknowledge; with an error the queue is to deliver the work again: rounds done by then are not
// done again.
func (s *Service) Work(ctx context.Context, m Message) error {
	rounds, ok := m.rounds()
	if !ok {
		s.deps.Log.WarnContext(ctx, "malformed work is dropped", "subject", m.Subject)
		return nil
	}
	if _, err := s.worker.Do(ctx, rounds); err != nil {
		return fmt.Errorf("estimate material requests: %w", err)
	}
	return nil
}

// pending is a request on its way through a batch: it ends with an event or with err.
type pending struct {
	materials.Request
	round.Round
	tries int64 // estimations of this round that came to nothing
	event webhook.Event
	body  []byte // the event as JSON
	err   error
}

// newWorkerBatcher starts the batches. None lingers: a lone message is estimated at once.
func newWorkerBatcher(s *Service) *groupcommit.Batcher[[]round.Round, struct{}] {
	return groupcommit.New(s.deps.Flushers, workMessages, 0, s.flushWork)
}

// flushWork estimates the rounds of some messages. The batch belongs to no single caller, so nothing of its context is
// used.
func (s *Service) flushWork(_ context.Context, messages [][]round.Round) ([]struct{}, error) {
	var rounds []round.Round
	known := make(map[round.Round]bool)
	for _, message := range messages {
		for _, r := range message {
			if !known[r] {
				known[r] = true
				rounds = append(rounds, r)
			}
		}
	}
	for len(rounds) > 0 {
		n, done := s.deps.Outbox.Reserve(min(len(rounds), workBatch))
		rest, err := s.workOn(rounds[:n])
		if err != nil && !errs.IsUnavailable(err) {
			rest, err = nil, s.workOnEach(rounds[:n])
		}
		done()
		if err != nil {
			return nil, err
		}
		rounds = append(rest, rounds[n:]...)
	}
	return make([]struct{}, len(messages)), nil
}

// workOnEach estimates the rounds one by one, so that one that the database refuses fails alone. Those of a supplier
// whose rows another transaction holds are left to their messages, which come again; the others wait for none of them.
func (s *Service) workOnEach(rounds []round.Round) error {
	held := map[string]error{}
	for i, r := range rounds {
		if held[r.SupplierID] != nil {
			continue
		}
		_, err := s.workOn(rounds[i : i+1])
		switch {
		case err == nil:
		case errs.IsPassing(err):
			held[r.SupplierID] = err
		case errs.IsUnavailable(err):
			return err
		default:
			err = s.failed(&pending{Request: materials.Request{SupplierID: r.SupplierID, ID: r.RequestID}, Round: r,
				err: invalid(err)})
			if err != nil {
				return err
			}
		}
	}
	return errors.Join(slices.Collect(maps.Values(held))...)
}

// workOn estimates as many of the rounds as fit into memory together; rest are the others.
func (s *Service) workOn(rounds []round.Round) (rest []round.Round, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), workStoreTimeout)
	defer cancel()
	read := s.deps.Local()
	requests, rest, err := s.store.due(ctx, rounds, workBytes)
	if err != nil {
		return nil, err
	}
	inBatch, end := s.traceBatch(requests)
	defer func() { end(err) }()
	s.estimateAll(inBatch, requests)
	if err := s.storeEvents(requests, read); err != nil {
		return nil, err
	}
	for _, p := range requests {
		if p.err != nil {
			if err := s.failed(p); err != nil {
				return nil, err
			}
		}
	}
	return rest, nil
}

// traceBatch begins the batch's span and returns its end.
func (s *Service) traceBatch(requests []*pending) (context.Context, func(error)) {
	ctx := context.Background()
	if s.deps.Batch == nil {
		return ctx, func(error) {}
	}
	parents := make([]string, len(requests))
	for i, p := range requests {
		parents[i] = p.TraceParent
	}
	return s.deps.Batch(ctx, "estimate batch", parents)
}

// storeEvents stores the events of the estimated rounds, which are sent when that is committed. A crash before the
// commit leaves the work to be done again; one after it, to the outbox. Of two workers with the same round, one stores
// and sends; the other one clears its ticket. A worker that was stopped since it read the requests may find them
// estimated by another one and deleted by retention: their events would belong to nothing.
func (s *Service) storeEvents(requests []*pending, read time.Time) error {
	events := make([]round.Outgoing, 0, len(requests))
	for _, p := range requests {
		if p.err == nil {
			events = append(events, round.Outgoing{Round: p.Round, TraceID: p.TraceID, TraceParent: p.TraceParent,
				Event: p.event, Body: p.body})
		}
	}
	if len(events) == 0 {
		return nil
	}
	slices.SortFunc(events, func(a, b round.Outgoing) int { // as they are stored: another worker may have the same
		return cmp.Or(cmp.Compare(a.Round.UID, b.Round.UID), cmp.Compare(a.Round.Number, b.Round.Number))
	})
	ctx, cancel := context.WithTimeout(context.Background(), workStoreTimeout)
	defer cancel()
	err := s.deps.DB.InTx(ctx, "store estimations", func(ctx context.Context) error {
		stored, err := s.deps.Outbox.Add(ctx, events)
		if err == nil && s.deps.Local().Sub(read) > workStale {
			err = s.store.mustStillExist(ctx, roundsOf(events))
		}
		if err != nil {
			return err
		}
		return s.store.clearTickets(ctx, stored)
	})
	if err != nil {
		return fmt.Errorf("hand events to the outbox: %w", err)
	}
	return nil
}

// roundsOf returns the events' rounds.
func roundsOf(events []round.Outgoing) []round.Round {
	list := make([]round.Round, len(events))
	for i, e := range events {
		list[i] = e.Round
	}
	return list
}
