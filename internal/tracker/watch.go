package tracker

import (
	"context"
	"maps"
	"slices"
	"sync"
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

// watched are the views that cannot be read, as they were when they were looked at last.
type watched struct {
	mu     sync.Mutex
	faults map[string]error
}

// Faults names views that active clients read and that cannot be read, with the reason. It is for operators, asks
// no client and costs the same for any number of them.
func (s *Service) Faults() map[string]error {
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	first := map[string]error{}
	for _, view := range slices.Sorted(maps.Keys(s.watched.faults))[:min(len(s.watched.faults), mostFaults)] {
		first[view] = s.watched.faults[view]
	}
	return first
}

// Watch looks at all granted views in turn until ctx ends, at most watchAtOnce a second.
func (s *Service) Watch(ctx context.Context) error {
	for ctx.Err() == nil {
		next := time.After(watchEvery)
		if views, err := s.granted(ctx); err == nil { // when the database is unavailable, /readyz says that by itself
			s.forget(views)
			s.inspect(ctx, views)
		}
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
	return nil
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

// inspect looks at each view, and waits a second after each watchAtOnce.
func (s *Service) inspect(ctx context.Context, views map[string]bool) {
	n := 0
	for view := range views {
		if n++; n%watchAtOnce == 0 {
			sleep.For(ctx, time.Second)
		}
		err := s.probe(ctx, view)
		if ctx.Err() != nil || errs.KindOf(err) == errs.Unavailable {
			return
		}
		s.watched.set(view, err)
	}
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

// forget drops what is known of views that no client is granted any more.
func (s *Service) forget(views map[string]bool) {
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	maps.DeleteFunc(s.watched.faults, func(view string, _ error) bool { return !views[view] })
}

// set keeps why a granted view cannot be read, and logs when that begins and ends.
func (w *watched) set(view string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.faults, view)
		return
	}
	if w.faults == nil {
		w.faults = map[string]error{}
	}
	w.faults[view] = err
}
