// Package scoreboard answers with the football matches of a day and the next: from the primary provider, or from the
// second one while the first one is over its rate limit. Each of two requesters has a daily quota.
package scoreboard

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/reads"
	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

// The path of a question: the key and the parameters are checked, a unit of the requester's day is spent, and only
// then is anything asked. An answer is remembered for SCOREBOARD_CACHE_TTL; equal questions at one moment share one
// call of the provider, at most sixteen different ones at once, ten seconds at most. A provider whose 503 says when to
// come back is not asked until then, nor the primary one after a 429: then the second one answers meanwhile; after no
// other failure does it.

const (
	deadline      = 10 * time.Second // of a whole answer, both providers included
	mostQuestions = 16               // that are asked of providers at a time
	mostRemember  = 256              // answers
	longestPause  = 24 * time.Hour   // that the primary provider's rate limit can ask for
	defaultPause  = time.Minute      // when it does not say how long
	longestAway   = time.Minute      // that a provider's maintenance can ask for
)

// Question is what a provider is asked: the matches around a day and the next.
type Question struct {
	League int64     // id at the primary provider
	Day    time.Time // midnight in São Paulo
}

// Provider returns matches. A rate limit is a *fetch.RateLimited, an announced absence a *fetch.Away.
type Provider interface {
	Name() string
	Board(ctx context.Context, q Question) (Board, error)
}

// Deps is what the package is built from.
type Deps struct {
	Quotas   *Quotas // that it spends; its clocks are theirs
	Log      *slog.Logger
	Keys     []string      // that callers present; none: the route is not configured
	Primary  Provider      // nil when there is no token for it
	Fallback Provider      // nil when there is none
	CacheTTL time.Duration // 0: nothing is remembered
	Metrics  *Metrics
}

// Service answers questions, counts them and keeps the runtime settings.
type Service struct {
	*Quotas
	deps     Deps
	spending *groupcommit.Batcher[spend, grant]
	slots    *semaphore.Weighted
	answers  *reads.Cache[[]byte] // encoded

	mu    sync.Mutex
	rests map[string]rest // by provider, under mu: each flight reads them before its call and may write one after it
}

// rest is until when a provider is not asked, and what it answered.
type rest struct {
	until time.Time
	err   error
}

// New builds the service; Close releases it.
func New(deps Deps) *Service {
	if len(deps.Keys) > 0 && deps.Primary == nil {
		deps.Log.Warn("SPORTMONKS_API_TOKEN is not set: the scoreboard answers 500; " +
			"`api scoreboard sample` is a provider to try it with")
	}
	s := &Service{Quotas: deps.Quotas, deps: deps,
		slots: semaphore.NewWeighted(mostQuestions), rests: map[string]rest{},
		answers: reads.New[[]byte](mostRemember, deps.CacheTTL, deadline, deps.Quotas.local)}
	s.spending = groupcommit.New(1, spendBatch, 0, s.flushSpending)
	return s
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
	return s.answers.Get(ctx, r.key(), func(ctx context.Context) ([]byte, error) { return s.ask(ctx, r) })
}

// ask asks the providers.
func (s *Service) ask(ctx context.Context, r request) ([]byte, error) {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return nil, errs.Wrap(errs.Internal, "", errors.New("too many questions are being asked of the providers"))
	}
	defer s.slots.Release(1)
	board, source, err := s.fetch(ctx, r.question)
	if err != nil {
		return nil, err
	}
	if source == s.deps.Primary.Name() {
		board.Games = slices.DeleteFunc(board.Games, func(g Game) bool { // no ids keep all
			return len(r.matchIDs) > 0 && !slices.Contains(r.matchIDs, format(g.ID))
		})
	}
	return encode(board, r.question.Day, source, s.now())
}

// fetch asks the primary provider, and the other one when, and only when, the first is over its rate limit.
func (s *Service) fetch(ctx context.Context, q Question) (Board, string, error) {
	board, err := s.consult(ctx, s.deps.Primary, q)
	if _, limited := errors.AsType[*fetch.RateLimited](err); !limited {
		return board, s.deps.Primary.Name(), err
	}
	if s.deps.Fallback == nil {
		return Board{}, "",
			errors.New("the primary provider is over its rate limit and there is no fallback: FALLBACK_API_KEY is not set")
	}
	board, err = s.consult(ctx, s.deps.Fallback, q)
	return board, s.deps.Fallback.Name(), err
}

// consult puts a question to a provider and counts it. One that rests is not asked: its last answer counts.
func (s *Service) consult(ctx context.Context, p Provider, q Question) (Board, error) {
	s.mu.Lock()
	resting := s.rests[p.Name()]
	s.mu.Unlock()
	if s.local().Before(resting.until) {
		return Board{}, resting.err
	}
	board, err := p.Board(ctx, q)
	s.deps.Metrics.asked(p.Name(), err)
	if pause := s.pauseOf(p, err); pause > 0 {
		until := s.local().Add(pause)
		s.mu.Lock()
		known := s.rests[p.Name()].until
		begins := known.Equal(resting.until) // of those who asked at the same moment one logs it
		if until.After(known) {              // one that asked earlier may be given a shorter rest later
			s.rests[p.Name()] = rest{until, err}
		}
		s.mu.Unlock()
		if begins {
			s.deps.Log.WarnContext(ctx, "a provider is not asked for a while",
				"provider", p.Name(), "pause", pause, "error", err)
		}
	}
	return board, err
}

// pauseOf returns how long a provider is not asked after its answer.
func (s *Service) pauseOf(p Provider, err error) time.Duration {
	if away, ok := errors.AsType[*fetch.Away](err); ok {
		return min(away.RetryAfter, longestAway)
	}
	if limited, ok := errors.AsType[*fetch.RateLimited](err); ok && p == s.deps.Primary {
		return min(cmp.Or(max(limited.RetryAfter, 0), defaultPause), longestPause)
	}
	return 0
}
