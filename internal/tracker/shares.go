package tracker

import (
	"sync"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// shares are the places of reading that views have which were not made here, a quarter of the connections: how long
// one takes is not known. A client has half of them at most, so that another finds one.
type shares struct {
	places, each int

	mu    sync.Mutex
	taken int
	by    map[int64]int // client → places
}

func newShares(places int) *shares {
	return &shares{places: places, each: max(places/2, 1), by: map[int64]int{}}
}

// take takes a place, or refuses at once.
func (s *shares) take(client int64) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == s.places || s.by[client] == s.each {
		return nil, errs.NewUnavailable("As many views are read as may be at once.", shareWait, nil)
	}
	s.taken++
	s.by[client]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken--
		if s.by[client]--; s.by[client] == 0 {
			delete(s.by, client)
		}
	}, nil
}
