package supplierauth

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
)

// sessionBatch is how many callers share a transaction.
const sessionBatch = 64

// outcome is what became of one caller's session: a batch that is committed for some may fail for others.
type outcome struct {
	grant *grant // nil: none
	err   error
}

func (s *Service) startCommits() {
	flushers := s.store.db.Flushers()
	s.openings = groupcommit.New(flushers, sessionBatch, 0, s.flushOpenings)
	s.rotations = groupcommit.New(flushers, sessionBatch, 0, s.flushRotations)
}

// Close refuses new sessions and rotations, finishes those begun and waits for them.
func (s *Service) Close() {
	s.openings.Close()
	s.rotations.Close()
}

// shared hands an item to a group commit.
func shared[T any](ctx context.Context, batcher *groupcommit.Batcher[T, outcome], item T) (*grant, error) {
	result, err := batcher.Do(ctx, item)
	if errors.Is(err, groupcommit.ErrClosed) {
		return nil, errs.NewUnavailable("The service is stopping.", time.Second, err)
	}
	if err != nil {
		return nil, err
	}
	return result.grant, result.err
}

// flushOpenings begins a batch of sessions. It belongs to no single caller, so nothing of its context is used.
func (s *Service) flushOpenings(_ context.Context, items []opening) ([]outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	grants, err := s.store.open(ctx, items, s.now())
	if err != nil {
		return nil, err
	}
	s.endOldest(ctx, grants)
	return outcomes(grants), nil
}

// endOldest keeps the suppliers of new sessions, which are committed, to maxSessions: of several processes that begin
// some at once the last one sees all. What it fails to end the next one ends.
func (s *Service) endOldest(ctx context.Context, opened []*grant) {
	var suppliers []string
	for _, g := range opened {
		if g != nil && !slices.Contains(suppliers, g.SupplierID) {
			suppliers = append(suppliers, g.SupplierID)
		}
	}
	n, err := s.store.endOldest(ctx, suppliers, s.now())
	if err != nil {
		s.log.WarnContext(ctx, "the oldest sessions of a supplier with too many could not be ended", "error", err)
	}
	s.ended.WithLabelValues(endedByNumber).Add(float64(n))
}

// flushRotations replaces a batch of refresh tokens. Those that PostgreSQL left out are tried by themselves: they are
// not the current ones of their sessions, or another transaction held these.
func (s *Service) flushRotations(_ context.Context, items []rotation) ([]outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	now := s.now()
	if s.store.db.Engine() != database.Postgres {
		grants, err := inTurn(ctx, s.store.db, items,
			func(ctx context.Context, r rotation) (*grant, error) { return s.store.rotateOne(ctx, r, now) })
		if err != nil {
			return nil, err
		}
		return outcomes(grants), nil
	}
	grants, err := s.store.rotatePostgres(ctx, items, now)
	if err != nil {
		return nil, err
	}
	results := make([]outcome, len(items))
	for i, r := range items {
		if g := grants[string(r.next.secretHash())]; g != nil {
			results[i] = outcome{grant: g}
			continue
		}
		g, err := s.store.rotateOne(ctx, r, now)
		results[i] = outcome{g, err}
	}
	return results, nil
}

func outcomes(grants []*grant) []outcome {
	results := make([]outcome, len(grants))
	for i, g := range grants {
		results[i].grant = g
	}
	return results
}
