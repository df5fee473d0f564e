package work

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sleep"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Working off what is in hand, step by step:
//
//  1. a batch of rounds is begun, some of each supplier, as many as the sender has room for;
//  2. the requests that still wait for that round are read;
//  3. each is estimated, outside of any transaction; one that takes longer than slowAfter leaves the batch and is
//     stored when it ends;
//  4. one transaction stores an event for each round and its deliveries. After its COMMIT the sender has them.
//
// A worker that dies before the COMMIT leaves its rounds due, and the next owner of their shards finds them. After it
// the round stays due until the own endpoint has the estimates; who finds it before that finds the event stored, and
// clears it.
//
// Two workers may have the same round for a moment, when a shard moves. Both estimate it, and the event's key lets one
// store it.

const (
	workBatch        = 128              // requests that share a transaction
	workBytes        = 2 << 20          // of bodies that are read at a time
	workStoreTimeout = 15 * time.Second // for each of a batch's two visits to the database
	workStale        = 5 * time.Second  // after which what was read may be gone
	workAgain        = time.Second      // after a batch that failed; its rounds are found due
)

// pending is a request on its way through a batch: it ends with an event or with err.
type pending struct {
	materials.Request
	round.Round
	tries int64 // estimations of this round that came to nothing
	size  int64 // of the request, in bytes
	read  time.Time
	event webhook.Event
	body  []byte // the event as JSON
	err   error
}

// workOff works on what is in hand until the hand is closed.
func (s *Service) workOff(ctx context.Context) {
	for n := s.hand.await(); n > 0 && ctx.Err() == nil; n = s.hand.await() {
		n, done := s.deps.Outbox.Reserve(min(n, workBatch))
		rounds := s.hand.take(n)
		err := s.Work(rounds)
		done()
		if err != nil {
			s.deps.Log.WarnContext(ctx, "estimation failed, the requests stay due", "error", err, "requests", len(rounds))
			sleep.For(ctx, workAgain) // an outage behind it must not make this worker spin
		}
	}
}

// Work estimates the rounds and hands their events to the outbox, exactly once however often it is called. With an
// error some of them stay due. Wait waits for those whose estimation takes long.
func (s *Service) Work(rounds []round.Round) error {
	for len(rounds) > 0 {
		n := min(len(rounds), workBatch)
		_, rest, err := s.workOn(rounds[:n])
		if err != nil && !errs.IsUnavailable(err) {
			rest, err = nil, s.workOnEach(rounds[:n])
		}
		if err != nil {
			s.hand.done(rounds[n:]...)
			return fmt.Errorf("estimate material requests: %w", err)
		}
		rounds = append(rest, rounds[n:]...)
	}
	return nil
}

// workOnEach estimates the rounds one by one, so that one that the database refuses fails alone. Those of a supplier
// whose rows another transaction holds stay due; the others wait for none of them.
func (s *Service) workOnEach(rounds []round.Round) error {
	held := map[string]bool{}
	for i, r := range rounds {
		if held[r.SupplierID] {
			continue
		}
		read, _, err := s.workOn(rounds[i : i+1])
		switch {
		case err == nil:
		case errs.IsPassing(err):
			held[r.SupplierID] = true
		case errs.IsUnavailable(err):
			return err
		default:
			p := &pending{Request: materials.Request{SupplierID: r.SupplierID, ID: r.RequestID}, Round: r}
			if len(read) > 0 {
				p = read[0]
			}
			if p.err = err; !database.Defective(err) {
				p.err = errs.Wrap(errs.Invalid, "store the estimates", err)
			}
			if err := s.failed(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// workOn estimates as many of the rounds as fit into memory together, the requests; rest are the others. All but these
// are no longer in hand when it returns, unless their estimation goes on. With an error none is rest.
func (s *Service) workOn(rounds []round.Round) (requests []*pending, rest []round.Round, err error) {
	var late []*pending
	defer func() {
		if err != nil {
			rest = nil
		}
		going := database.Set(rest)
		for _, p := range late {
			going[p.Round] = true
		}
		s.hand.done(slices.DeleteFunc(slices.Clone(rounds), func(r round.Round) bool { return going[r] })...)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), workStoreTimeout)
	defer cancel()
	at := s.deps.Local()
	if requests, rest, err = s.store.read(ctx, rounds, workBytes); err != nil {
		return nil, nil, err
	}
	for _, p := range requests {
		p.read = at
		s.hand.weigh(p.Round, p.size)
	}
	inTime, late, err := s.estimateAll(context.Background(), requests)
	if err == nil {
		err = s.finish(inTime)
	}
	return requests, rest, err
}

// flushLate stores what was too slow for its batch. The batch belongs to no single caller, so nothing of its context is
// used.
func (s *Service) flushLate(_ context.Context, requests []*pending) ([]struct{}, error) {
	return make([]struct{}, len(requests)), s.finish(requests)
}

// finish stores what the estimations came to.
func (s *Service) finish(requests []*pending) error {
	if err := s.storeEvents(requests); err != nil {
		return err
	}
	for _, p := range requests {
		if p.err != nil {
			if err := s.failed(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// storeEvents stores the events of the estimated rounds, which are sent when that is committed. A crash before the
// commit leaves the rounds due; one after it, to the outbox. When two workers have the same round, one stores and
// sends; the other one finds that and clears the round. A worker that was stopped since it read the requests may find
// them estimated by another one and deleted by retention: their events would belong to nothing.
func (s *Service) storeEvents(requests []*pending) error {
	events, read := make([]round.Outgoing, 0, len(requests)), s.deps.Local()
	for _, p := range requests {
		if p.err == nil {
			events = append(events, round.Outgoing{Round: p.Round, TraceID: p.TraceID, TraceParent: p.TraceParent,
				Event: p.event, Body: p.body})
			if p.read.Before(read) {
				read = p.read
			}
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
			err = s.store.mustStillExist(ctx, lists.Of(events,
				func(e round.Outgoing) round.Round { return e.Round }))
		}
		if err != nil {
			return err
		}
		return s.store.clear(ctx, stored)
	})
	return errs.Doing("hand events to the outbox", err)
}
