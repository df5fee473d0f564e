package tracker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

const (
	pinsKept   = 4096
	pinLife    = 10 * time.Minute // after so long without a page a crawl is over
	pinRefresh = time.Minute      // how old a note of the same state may be before it is written again
	noID       = int64(-1)        // of a view without rows, or whose ids are not integers
)

// errClientChanged says that a remembered client is not what it was.
var errClientChanged = errors.New("the client has changed meanwhile")

// errMoved says that rows of the state that was read are gone or changed: the page is made again of the present one.
var errMoved = errors.New("the view has changed meanwhile")

// state is what a view held at a moment: the rows with ids up to maxID, as long as the generation is the same.
type state struct {
	generation int64
	maxID      int64
	day        string // the snapshot's date; empty: none
}

// pinKey names a crawl: what a client asks for, the page aside.
type pinKey struct {
	client   int64
	listing  string
	filter   string
	pageSize int
}

// pin is the state that a crawl reads.
type pin struct {
	state
	view string
	at   time.Time
}

// look is what one statement returns before a page is read.
type look struct {
	present state // of a view made here
	pinned  state
	found   bool // something is pinned, and the same generation still
}

// look reads the version of the view and the noted state, and makes sure that the client is still what it was
// remembered as. Errors: errClientChanged.
func (s *Service) look(ctx context.Context, c Client, r *relation, key pinKey) (look, error) {
	l := look{present: state{maxID: noID}}
	current := false
	oldest := s.deps.Now().Add(-pinLife).UnixMicro()
	err := s.rows.Select(ctx, `SELECT c.updated_at, coalesce(v.generation, 0), coalesce(v.max_id, -1),
			p.generation, p.max_id, p.day
		FROM tracker_clients c LEFT JOIN tracker_versions v ON v.client_number = $1
		LEFT JOIN tracker_pins p ON p.client_number = c.number AND p.listing = $2 AND p.filter = $3 AND p.page_size = $4
			AND p.view = $5 AND p.pinned_at > $6
		WHERE c.number = $7`, func(row [][]byte) error {
		var updated int64
		if err := scanInts(row[:3], &updated, &l.present.generation, &l.present.maxID); err != nil {
			return err
		}
		current = updated == c.UpdatedAt.UnixMicro()
		if row[3] == nil {
			return nil
		}
		l.pinned.day = string(row[5])
		if err := scanInts(row[3:5], &l.pinned.generation, &l.pinned.maxID); err != nil {
			return err
		}
		l.found = l.pinned.generation == l.present.generation
		return nil
	}, r.owner, key.listing, key.filter, int64(key.pageSize), r.granted, oldest, c.number)
	if err != nil {
		return look{}, fmt.Errorf("look at the listing's state: %w", err)
	}
	if !current {
		return look{}, errClientChanged
	}
	return l, nil
}

// openCursor returns the state that a page is to be read from: page 1 sees the present one and notes it for the pages
// after.
func (s *Service) openCursor(ctx context.Context, c Client, r *relation, key pinKey, first bool,
	present func(context.Context, state) (state, error)) (state, error) {
	l, err := s.look(ctx, c, r, key)
	if err != nil {
		return state{}, err
	}
	st := l.pinned
	if first || !l.found {
		if st, err = present(ctx, l.present); err != nil {
			return state{}, err
		}
	}
	s.saveCursor(ctx, r, key, st)
	return st, nil
}

// saveCursor writes the state down for the crawl's next pages, unless this process did so a moment ago. A note that
// cannot be written costs the crawl its stability, not its answer.
func (s *Service) saveCursor(ctx context.Context, r *relation, key pinKey, st state) {
	now := s.deps.Now()
	last, found := s.pinned.Get(key)
	if found && last.state == st && last.view == r.granted && now.Sub(last.at) < pinRefresh {
		return
	}
	if err := s.store.notePin(ctx, key, pin{st, r.granted, now}, now.Add(-pinLife)); err != nil {
		s.deps.Log.WarnContext(ctx, "the listing's state could not be noted: its pages may shift", "error", err)
		return
	}
	s.pinned.Add(key, pin{st, r.granted, now})
}

func scanInts(row [][]byte, places ...*int64) (err error) {
	for i, place := range places {
		if *place, err = strconv.ParseInt(string(row[i]), 10, 64); err != nil {
			return err
		}
	}
	return nil
}
