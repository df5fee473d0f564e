package database

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	codeFull     = "53300"
	codeDiskFull = "53100"
	codeIOError  = "58030"
	fullTime     = time.Minute // after the last refusal: so long a process makes do with the fewest connections
	freeRetry    = time.Second
	freeTries    = 60
)

// tighten lets the process make do with the fewest connections, as its server has none left: what it has beyond them is
// given up, so that other processes get theirs.
func (s *server) tighten() {
	s.mu.Lock()
	before := s.tight.Swap(true)
	s.loosen.Reset(fullTime)
	s.mu.Unlock()
	if before {
		return
	}
	s.limit(s.fewWriters())
	s.config.Log.Warn("the database server has no connection left: this process makes do with the fewest", "connections",
		fewest)
	s.reset()
}

// widen ends tighten.
func (s *server) widen() {
	s.tight.Store(false)
	if s.limited || !s.session.pooler() {
		s.limit(0)
	}
}

// whenFree repeats fn while the server has no connection left, for a minute: other processes let theirs go when they
// are idle.
func whenFree(ctx context.Context, log *slog.Logger, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		pg, refused := errors.AsType[*pgconn.PgError](err)
		if !refused || pg.Code != codeFull || try == freeTries {
			return err
		}
		if try == 1 {
			log.WarnContext(ctx, "waiting for a connection: the database server has none left", "longest", freeTries*freeRetry)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(freeRetry):
		}
	}
}
