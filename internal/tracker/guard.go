package tracker

import (
	"errors"
	"fmt"
	"strconv"
)

// errOutdated says that what was remembered is not true any more.
var errOutdated = errors.New("what was remembered of the listing is outdated")

// guard is what a page's own statement tells beside its rows, so that a page whose state is remembered needs no other.
type guard struct {
	client Client
	owner  int64
	view   string
	key    pinKey
	st     state
	first  bool // page 1: the state must be the present one; later pages: it must be the noted one
	strict bool // the state is remembered and not looked up
}

const guardColumns = 4

// columns are the first ones of the page's statement.
func (g guard) columns(p *places) string {
	client, owner := p.place(g.client.number), p.place(g.owner)
	return "(SELECT updated_at FROM tracker_clients WHERE number = " + client + "), " +
		"(SELECT generation FROM tracker_versions WHERE client_number = " + owner + "), " +
		"(SELECT max_id FROM tracker_versions WHERE client_number = " + owner + "), " +
		"(SELECT generation || ' ' || max_id || ' ' || day || ' ' || view FROM tracker_pins WHERE client_number = " + client +
		" AND listing = " + p.place(g.key.listing) + " AND filter = " + p.place(g.key.filter) + " AND page_size = " + p.place(int64(g.key.pageSize)) + "), "
}

// check compares what the statement tells. Errors: errMoved, errOutdated.
func (g guard) check(row [][]byte) error {
	if string(row[1]) != strconv.FormatInt(g.st.generation, 10) {
		return errMoved
	}
	if !g.strict {
		return nil
	}
	if string(row[0]) != strconv.FormatInt(g.client.UpdatedAt.UnixMicro(), 10) {
		return errOutdated
	}
	if g.first && string(row[2]) != strconv.FormatInt(g.st.maxID, 10) {
		return errOutdated
	}
	if string(row[3]) != fmt.Sprintf("%d %d %s %s", g.st.generation, g.st.maxID, g.st.day, g.view) {
		return errOutdated
	}
	return nil
}

// remembered is the state that this process noted for the crawl a moment ago.
func (s *Service) remembered(c Client, r *relation, key pinKey, first bool) (guard, bool) {
	last, found := s.pinned.Get(key)
	if !found || !r.counted() || last.view != r.granted || s.deps.Now().Sub(last.at) >= pinRefresh {
		return guard{}, false
	}
	return guard{client: c, owner: r.owner, view: r.granted, key: key, st: last.state, first: first, strict: true}, true
}
