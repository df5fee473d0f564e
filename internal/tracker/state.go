package tracker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// A state is "the records up to max_id of a generation". Loads only add records with greater ids, so the state of a
// crawl stays readable while they come. A correction, by any role and any tool, begins a new generation by a trigger;
// pages of the one before are not given any more: the crawl goes on in the new one.

const (
	pinsKept     = 4096
	pinLife      = 30 * time.Minute // so long a crawl is noted: the 10 minutes that are promised, whatever the clock does
	pinRefresh   = time.Minute      // how old a note of the same state may be before it is written again
	pinWait      = 2 * time.Second  // for a note to be read or written, longer than for a lock
	replicaRetry = time.Second
	noID         = int64(-1) // of a view without rows, or whose ids are not integers
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
	view  string
	noted time.Time // by this process's clock
}

// look is what one statement returns before a page is read.
type look struct {
	present state // of a view made here
	pinned  state
	found   bool // something is pinned, and the same generation still
}

// look reads the version of the view and the noted state, for a later page on a replica at the primary too, and makes
// sure that the client is still what it was remembered as. Errors: errClientChanged.
func (s *Service) look(ctx context.Context, c Client, r *relation, key pinKey, first bool) (look, error) {
	l := look{present: state{maxID: noID}}
	current := false
	oldest := s.deps.Now().Add(-pinLife).UnixMicro()
	err := s.rows.Select(ctx, `SELECT c.version, coalesce(v.generation, 0), coalesce(v.max_id, -1),
			p.generation, p.max_id, p.day
		FROM tracker_clients c LEFT JOIN tracker_versions v ON v.client_number = $1
		LEFT JOIN tracker_pins p ON p.client_number = c.number AND p.listing = $2 AND p.filter = $3 AND p.page_size = $4
			AND p.view = $5 AND p.pinned_at > $6
		WHERE c.number = $7`, func(row [][]byte) error {
		var version int64
		if err := scanInts(row[:3], &version, &l.present.generation, &l.present.maxID); err != nil {
			return err
		}
		current = version <= c.version // a replica may not have the last change yet
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
	if !first && s.deps.DB.Replicated() {
		err = s.lookAtPrimary(ctx, r, key, &l)
	}
	return l, err
}

// lookAtPrimary reads the noted state where it is written: a replica may still have a former crawl's. While the primary
// is away it is the one that this process noted itself.
func (s *Service) lookAtPrimary(ctx context.Context, r *relation, key pinKey, l *look) error {
	waiting, cancel := context.WithTimeout(ctx, pinWait)
	defer cancel()
	pinned, found, err := s.store.pin(waiting, key, r.granted, s.deps.Now().Add(-pinLife))
	if last, known := s.pinned.Get(key); err != nil && known && last.view == r.granted {
		pinned, found, err = last.state, true, nil
	}
	if err != nil {
		return err
	}
	l.pinned, l.found = pinned, found && pinned.generation == l.present.generation
	if found && r.counted() && pinned.after(l.present) { // another replica had it
		return behind(nil)
	}
	return nil
}

// behind returns the error that the server that was read does not have a state yet.
func behind(cause error) error {
	return errs.NewUnavailable("The replica is behind: it does not have what another server showed.", replicaRetry, cause)
}

// read runs a statement whose first two columns are the view's version, or null, and hands over the others. A
// connection may be to another server than the one that the state was read from. Errors: errMoved, also as the cause
// of errs.Unavailable when this server does not have the state yet.
func (st state) read(ctx context.Context, sel database.Select, statement string, each func(row [][]byte) error,
	args ...any) error {
	seen := state{maxID: noID}
	err := sel(ctx, statement, func(row [][]byte) (err error) {
		if row[0] != nil {
			err = scanInts(row[:2], &seen.generation, &seen.maxID)
		}
		return cmp.Or(err, each(row[2:]))
	}, args...)
	switch {
	case err != nil:
		return err
	case st.after(seen):
		return behind(errMoved)
	case st.generation != seen.generation:
		return errMoved
	}
	return nil
}

// after reports whether the state is a later one of the same view.
func (st state) after(other state) bool {
	return cmp.Or(cmp.Compare(st.generation, other.generation), cmp.Compare(st.maxID, other.maxID)) > 0
}

// saveCursor writes the state down for the crawl's next pages, unless this process did so a moment ago and is sure to
// have read the newest. A note that cannot be written costs the crawl its stability, not its answer.
func (s *Service) saveCursor(ctx context.Context, r *relation, key pinKey, st state, first bool) {
	last, found := s.pinned.Get(key)
	found = found && !(first && s.deps.DB.Replicated())
	if found && last.state == st && last.view == r.granted && time.Since(last.noted) < pinRefresh {
		return
	}
	p := pin{st, r.granted, time.Now()}
	ctx, cancel := context.WithTimeout(ctx, pinWait)
	defer cancel()
	switch written, err := s.store.notePin(ctx, key, p, first, s.deps.Now()); {
	case err != nil:
		s.deps.Log.WarnContext(ctx, "the listing's state could not be noted: its pages may shift", "error", err)
	case written:
		s.pinned.Add(key, p)
	default:
		s.pinned.Remove(key)
	}
}

// scanInts reads a row of numbers, which come as text.
func scanInts(row [][]byte, places ...*int64) (err error) {
	for i, place := range places {
		if *place, err = strconv.ParseInt(string(row[i]), 10, 64); err != nil {
			return err
		}
	}
	return nil
}

// guard is what a page's own statement checks with its rows, so that a page whose state is remembered needs no other:
// when it does not hold, the statement gives no row.
type guard struct {
	client Client
	owner  int64
	view   string
	key    pinKey
	st     state
	first  bool // page 1: the state must be the present one; later pages: it must be the noted one
	strict bool // the state is remembered and not looked up
}

// guarded returns the guard's condition, whose parameters begin with the n-th; PostgreSQL decides it once a statement.
func (f form) guarded(n int) string {
	if !f.strict {
		return fmt.Sprintf(`EXISTS (SELECT 1 FROM tracker_versions v WHERE v.client_number = $%d AND v.generation = $%d
			AND v.max_id >= $%d)`, n, n+1, n+2)
	}
	present := ``
	if f.first {
		present = fmt.Sprintf(` AND v.max_id = $%d`, n+2)
	}
	return fmt.Sprintf(`EXISTS (SELECT 1 FROM tracker_clients c, tracker_versions v, tracker_pins n
		WHERE v.client_number = $%d AND v.generation = $%d AND n.generation = v.generation AND n.max_id = $%d
			AND c.number = $%d AND c.version = $%d AND n.client_number = c.number AND n.listing = $%d AND n.filter = $%d
			AND n.page_size = $%d AND n.day = $%d AND n.view = $%d`, n, n+1, n+2, n+3, n+4, n+5, n+6, n+7, n+8, n+9) +
		present + `)`
}

// args returns a page's own arguments and those of guarded.
func (g guard) args(own ...any) []any {
	const most = 14
	args := append(append(make([]any, 0, most), own...), g.owner, g.st.generation, g.st.maxID)
	if !g.strict {
		return args
	}
	return append(args, g.client.number, g.client.version, g.key.listing, g.key.filter,
		int64(g.key.pageSize), g.st.day, g.view)
}

// remembered returns the state that this process noted for the crawl a moment ago. The guard would compare it with a
// replica's note, which may be a former one.
func (s *Service) remembered(r *relation, key pinKey) (st state, known bool) {
	last, found := s.pinned.Get(key)
	return last.state, found && last.view == r.granted && time.Since(last.noted) < pinRefresh && !s.deps.DB.Replicated()
}
