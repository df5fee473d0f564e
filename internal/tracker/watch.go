package tracker

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// Views of others break when their owner changes them. Every few seconds the api looks whether those that clients are
// granted can be read, and reports the faults in /readyz as degraded: the client concerned gets its 403 or 503, all
// others are served.

const (
	watchAtOnce = 20              // views that are looked at in a second, however many there are
	mostFaults  = 20              // that are named
	watchEvery  = 5 * time.Second // at the most often, all of them
)

// watched are the views that could not be read when they were looked at last, with the reason. Watch alone replaces
// them, after each look; none of them is changed.
type watched = atomic.Pointer[map[string]error]

// Faults names views that active clients read and that cannot be read, with the reason. It is for operators, asks
// no client and costs the same for any number of them.
func (s *Service) Faults() map[string]error {
	first := map[string]error{}
	if faults := s.watched.Load(); faults != nil {
		for _, view := range slices.Sorted(maps.Keys(*faults))[:min(len(*faults), mostFaults)] {
			first[view] = (*faults)[view]
		}
	}
	return first
}

// Watch looks at all granted views in turn until ctx ends, at most watchAtOnce a second.
func (s *Service) Watch(ctx context.Context) error {
	for ctx.Err() == nil {
		next := time.After(watchEvery)
		s.inspect(ctx)
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
	return nil
}

// inspect looks at each granted view, and waits a second after each watchAtOnce. When the database is unavailable,
// /readyz says that by itself.
func (s *Service) inspect(ctx context.Context) {
	views, err := s.granted(ctx)
	if err != nil {
		return
	}
	known, n := map[string]error{}, 0
	if last := s.watched.Load(); last != nil {
		known = *last
	}
	for view := range views {
		if n++; n%watchAtOnce == 0 {
			sleep.For(ctx, time.Second)
		}
		err := s.probe(ctx, view)
		if ctx.Err() != nil || errs.KindOf(err) == errs.Unavailable {
			return
		}
		next := maps.Clone(known)
		maps.DeleteFunc(next, func(fault string, _ error) bool { return fault == view || !views[fault] })
		if err != nil {
			next[view] = err
		}
		s.watched.Store(&next)
		known = next
	}
}

// granted returns the views that active clients read.
func (s *Service) granted(ctx context.Context) (map[string]bool, error) {
	clients, err := s.store.list(ctx)
	if err != nil {
		return nil, err
	}
	views := map[string]bool{}
	for _, c := range clients {
		if c.Active && len(c.Views) > 0 {
			views[c.Views[0]] = true
		}
	}
	return views, nil
}

// probe returns why a view cannot be read, without reading a row. Nothing that listings remember changes.
func (s *views) probe(ctx context.Context, granted string) error {
	r, err := s.lookUp(ctx, granted)
	if err != nil {
		return err
	}
	err = s.isolated(ctx, r, func(sel database.Select) error {
		return sel(ctx, "SELECT "+r.plain+" FROM "+r.from+" LIMIT 0", func([][]byte) error { return nil })
	})
	return errs.Doing("the view "+granted+" cannot be read", err)
}
