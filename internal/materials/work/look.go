package work

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// Messages may get lost: with NATS, with a process that died between COMMIT and publish, on the way to a shard that
// moves. The database alone says what is due. The owner of a shard looks for it:
//
//  1. once a second for what has been due for a second: a message had that long to come;
//  2. at once for all that is due when it takes a shard of a worker that died, when it has nothing to do although it
//     refused messages, and once a second while no messages come at all;
//  3. rounds that are in hand are left out, and those whose events are stored are cleared: their estimates are on their
//     way. The others are put in hand like those of a message.

const (
	lookEvery     = time.Second
	lookAge       = time.Second      // so long a message may be on its way
	lookTimeout   = 10 * time.Second // for the statements of one look
	lookSuppliers = 1024             // visited by one look; the next one goes on behind them
	lookEach      = 512              // rounds of one supplier
	lookMost      = 2048             // rounds in all

	undeliveredLooks = 3           // without a message in between, that found rounds whose messages did not come
	undeliveredSaid  = time.Minute // how often it is logged
)

// ErrUndelivered says that requests were due of which the queue brought no message.
var ErrUndelivered = errors.New("the queue does not bring all messages: " +
	"requests are estimated a second later, from the database")

// looker is which shards this worker looks for. Own, which the keeper of the lease calls, writes what is under mu, and
// the looking goroutine reads it.
type looker struct {
	mu    sync.Mutex
	owned []int
	fresh map[int]bool // taken from workers that died since the last look

	now  chan struct{}             // holds a note when there are fresh shards
	lost atomic.Int64              // looks since the last message that found what no message had brought; Take resets it
	said atomic.Pointer[time.Time] // when that was said last; /readyz reads it

	// of the looking goroutine alone
	after map[int]string // the supplier behind which the next look at a shard begins
	whole bool           // the last look saw all that was due: the next one finds only new rounds
}

// Own makes this worker look for these shards and no others. orphans are those of them that it has just taken from
// workers that died.
func (s *Service) Own(shards, orphans []int) {
	l := &s.looking
	l.mu.Lock()
	l.owned = shards
	maps.Copy(l.fresh, database.Set(orphans))
	l.mu.Unlock()
	owned := database.Set(shards)
	s.hand.keep(func(supplierID string) bool { return owned[round.ShardOf(supplierID)] })
	if len(orphans) > 0 {
		sleep.Wake(l.now)
	}
}

// look looks for what is due until ctx ends. A look that finds nothing is followed by one in a second, whatever is
// refused meanwhile.
func (s *Service) look(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for idle := s.hand.idle; ; {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.looking.now:
		case <-idle:
			all = true
		}
		found, err := s.Look(ctx, all)
		if err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "look for estimations that are due failed", "error", err)
		}
		if idle = s.hand.idle; found == 0 {
			idle = nil
		}
	}
}

// Look puts in hand what is due to this worker's shards: for a second already, or with all by now. It returns how many
// rounds it found.
func (s *Service) Look(ctx context.Context, all bool) (found int, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	refused := s.hand.wasRefused()
	all = all || refused || !s.deps.Arrives()
	looks, fresh := s.looking.next(s.deps.Now(), all)
	if len(looks) == 0 {
		return 0, nil
	}
	rows, err := s.store.due(ctx, looks, lookSuppliers, lookEach, lookMost)
	if err != nil {
		s.looking.again(fresh)
		if refused {
			s.hand.more()
		}
		return 0, err
	}
	more := s.looking.went(rows)
	rounds, lost := make([]round.Round, 0, len(rows)), make(map[round.Round]bool, len(rows))
	for _, r := range rows {
		if r.UID != 0 {
			rounds = append(rounds, r.Round)
			lost[r.Round] = r.tries == 0 && !fresh[round.ShardOf(r.SupplierID)]
		}
	}
	if rounds, err = s.withoutStored(ctx, s.hand.without(rounds)); err != nil {
		return 0, err
	}
	s.hand.add(rounds)
	if more && len(rounds) > 0 {
		s.hand.more()
	}
	s.noteLost(ctx, !all && s.looking.whole && slices.ContainsFunc(rounds, func(r round.Round) bool { return lost[r] }))
	s.looking.whole = !more
	return len(rounds), nil
}

// withoutStored returns those of the rounds whose events are not stored, and clears the others.
func (s *Service) withoutStored(ctx context.Context, rounds []round.Round) ([]round.Round, error) {
	if len(rounds) == 0 {
		return nil, nil
	}
	stored, err := s.deps.Outbox.Stored(ctx, rounds)
	if err != nil || len(stored) == 0 {
		return rounds, err
	}
	known := database.Set(stored)
	missing := slices.DeleteFunc(rounds, func(r round.Round) bool { return known[r] })
	return missing, s.deps.DB.InTx(ctx, "clear estimated requests", func(ctx context.Context) error {
		return s.store.clear(ctx, stored)
	})
}

// next returns what to ask of the owned shards, and which of them are fresh.
func (l *looker) next(now time.Time, all bool) (looks []shardLook, fresh map[int]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	looks = make([]shardLook, len(l.owned))
	for i, shard := range l.owned {
		until := now
		switch {
		case l.fresh[shard]:
			delete(l.after, shard)
		case !all:
			until = now.Add(-lookAge)
		}
		looks[i] = shardLook{shard, l.after[shard], until.UnixMicro()}
	}
	fresh, l.fresh = l.fresh, map[int]bool{}
	return looks, fresh
}

// again notes the fresh shards of a look that failed.
func (l *looker) again(fresh map[int]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.fresh, fresh)
}

// went notes where a look ended, and reports whether it left something out. After one that visited all suppliers the
// next one begins at the front.
func (l *looker) went(rows []dueRound) (more bool) {
	of := map[string]int{}
	for _, r := range rows {
		of[r.SupplierID]++
		more = more || of[r.SupplierID] == lookEach
		l.after[round.ShardOf(r.SupplierID)] = r.SupplierID
	}
	if len(rows) == lookMost || len(of) == lookSuppliers {
		return true
	}
	clear(l.after)
	return more
}

// noteLost counts the looks that found rounds whose messages did not come, and says so once a minute. Take forgets
// them.
func (s *Service) noteLost(ctx context.Context, found bool) {
	l, now := &s.looking, s.deps.Local()
	if !found || l.lost.Add(1) < undeliveredLooks {
		return
	}
	if said := l.said.Load(); said == nil || now.Sub(*said) >= undeliveredSaid {
		l.said.Store(&now)
		s.deps.Log.WarnContext(ctx, ErrUndelivered.Error())
	}
}

// Undelivered returns ErrUndelivered for a minute after it was said, and until it may be said again.
func (s *Service) Undelivered() error {
	if said := s.looking.said.Load(); said == nil || s.deps.Local().Sub(*said) >= undeliveredSaid+2*lookEvery {
		return nil
	}
	return ErrUndelivered
}
