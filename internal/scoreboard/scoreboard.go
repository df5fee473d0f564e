// Package scoreboard answers with the football matches of a day and the next: from the primary provider, or from the
// second one while the first one refuses for its rate limit. Each of two requesters has a daily quota.
package scoreboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

// The road of a question: the key and the parameters are checked, a unit of the requester's day is spent, and only
// then is anything asked. An answer is remembered for SCOREBOARD_CACHE_TTL; equal questions at one moment share one
// call of the provider, at most sixteen different ones at once, ten seconds at most. A 429 of the primary provider
// starts its cooldown, during which the second one answers; no other failure does.

const (
	deadline      = 10 * time.Second // of a whole answer, both providers included
	mostQuestions = 16               // that are asked of providers at a time
	mostRemember  = 256              // answers
	longestPause  = time.Hour        // that the primary provider can ask for
	defaultPause  = time.Minute      // when it does not say how long
)

// Question is what a provider is asked: the matches around a day and the next.
type Question struct {
	League int64     // id at the primary provider
	Day    time.Time // midnight in São Paulo
}

// Provider returns matches. A rate limit is a *fetch.RateLimited.
type Provider interface {
	Name() string
	Board(ctx context.Context, q Question) (Board, error)
}

// Deps is what the package is built from.
type Deps struct {
	DB       *database.DB
	Log      *slog.Logger
	Now      func() time.Time // the database's
	Local    func() time.Time // this process's, for what lasts within it
	Keys     []string         // that callers present; none: the route is not configured
	Primary  Provider         // nil when there is no token for it
	Fallback Provider         // nil when there is none
	CacheTTL time.Duration    // 0: nothing is remembered

	Metrics *Metrics
}

// Service answers questions, counts them and keeps the runtime settings.
type Service struct {
	*Quotas
	deps     Deps
	spending *groupcommit.Batcher[spend, grant]
	flights  singleflight.Group
	slots    *semaphore.Weighted
	answers  *lru.Cache[string, answer]
	metrics  *Metrics
	seen     sightings

	mu     sync.Mutex
	paused time.Time // until then the primary provider is not asked
}

// answer is an encoded board and how long it may be given.
type answer struct {
	body  []byte
	until time.Time
}

// New builds the service; Close releases it.
func New(deps Deps) (*Service, error) {
	answers, err := lru.New[string, answer](mostRemember)
	if err != nil {
		return nil, err
	}
	if len(deps.Keys) > 0 && deps.Primary == nil {
		deps.Log.Warn("SPORTMONKS_API_TOKEN is not set: the scoreboard answers 500; " +
			"`api scoreboard sample` is a provider to try it with")
	}
	s := &Service{Quotas: NewQuotas(deps.DB, deps.Now, deps.Local), deps: deps,
		slots: semaphore.NewWeighted(mostQuestions), answers: answers,
		metrics: deps.Metrics}
	s.spending = groupcommit.New(1, spendBatch, 0, s.flushSpending)
	return s, nil
}

// Close finishes what is being counted.
func (s *Service) Close() { s.spending.Close() }

// request is a valid question of a caller.
type request struct {
	question Question
	matchIDs []string // empty: all
}

// key returns what equal requests have in common.
func (r request) key() string {
	return r.question.Day.Format(time.DateOnly) + "/" + format(r.question.League) + "/" + strings.Join(r.matchIDs, ",")
}

// board returns the encoded answer: remembered, or asked once for all who ask the same at the same time.
func (s *Service) board(ctx context.Context, r request) ([]byte, error) {
	key := r.key()
	if known, found := s.answers.Get(key); found && s.deps.Local().Before(known.until) {
		return known.body, nil
	}
	flight := s.flights.DoChan(key, func() (any, error) { return s.ask(context.WithoutCancel(ctx), r, key) })
	select {
	case done := <-flight:
		if done.Err != nil {
			return nil, done.Err
		}
		body, _ := done.Val.([]byte)
		return body, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask asks the providers. It belongs to no single caller, nor do its panics: singleflight would end the process with
// one.
func (s *Service) ask(ctx context.Context, r request, key string) (body []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.deps.Log.ErrorContext(ctx, "panic while a provider was asked", "panic", fmt.Sprint(p), "stack",
				string(debug.Stack()))
			body, err = nil, errors.New("a provider's answer caused a panic")
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return nil, errs.Wrap(errs.Internal, "", errors.New("too many questions are being asked of the providers"))
	}
	defer s.slots.Release(1)
	board, source, err := s.fetch(ctx, r.question)
	if err != nil {
		return nil, err
	}
	if source == s.deps.Primary.Name() {
		board.Games = filterByID(board.Games, r.matchIDs)
	}
	body, err = encode(board, r.question.Day, source, s.deps.Now())
	if err != nil {
		return nil, err
	}
	if s.deps.CacheTTL > 0 {
		s.answers.Add(key, answer{body, s.deps.Local().Add(s.deps.CacheTTL)})
	}
	return body, nil
}

// fetch asks the primary provider, and the other one when, and only when, the first is over its rate limit.
func (s *Service) fetch(ctx context.Context, q Question) (Board, string, error) {
	if !s.inCooldown() {
		board, err := s.consult(ctx, s.deps.Primary, q)
		limited, isLimited := errors.AsType[*fetch.RateLimited](err)
		if !isLimited {
			return board, s.deps.Primary.Name(), err
		}
		s.startCooldown(limited.RetryAfter)
		s.deps.Log.WarnContext(ctx, "the primary provider is over its rate limit", "provider", s.deps.Primary.Name(),
			"retry_after", limited.RetryAfter)
	}
	if s.deps.Fallback == nil {
		return Board{}, "",
			errors.New("the primary provider is over its rate limit and there is no fallback: FALLBACK_API_KEY is not set")
	}
	board, err := s.consult(ctx, s.deps.Fallback, q)
	return board, s.deps.Fallback.Name(), err
}

// inCooldown reports whether the primary provider has asked for a rest that is not over.
func (s *Service) inCooldown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deps.Local().Before(s.paused)
}

// startCooldown lets the primary provider rest for as long as it asked for, an hour at most.
func (s *Service) startCooldown(d time.Duration) {
	if d <= 0 {
		d = defaultPause
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = s.deps.Local().Add(min(d, longestPause))
}

// filterByID keeps the games with the ids; no ids keep all.
func filterByID(games []Game, ids []string) []Game {
	if len(ids) == 0 {
		return games
	}
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	var kept []Game
	for _, g := range games {
		if wanted[g.ID] {
			kept = append(kept, g)
		}
	}
	return kept
}
