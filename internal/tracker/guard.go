package tracker

import "time"

// guard is what a page's own statement checks with its rows, so that a page whose state is remembered needs no other:
// when it does not hold, the statement gives no row.
type guard struct {
	client Client
	owner  int64 // 0: the view was not made here and nothing is known of its versions
	view   string
	key    pinKey
	st     state
	first  bool // page 1: the state must be the present one; later pages: it must be the noted one
	strict bool // the state is remembered and not looked up
}

// condition returns the guard as a condition, to be followed by the page's own; PostgreSQL decides it once a statement.
// Its parameters are args, in their order.
func (g guard) condition(p *places) string {
	if g.owner == 0 {
		return ""
	}
	version := "v.client_number = " + p.next() + " AND v.generation = " + p.next()
	if !g.strict {
		return "EXISTS (SELECT 1 FROM tracker_versions v WHERE " + version + ") AND "
	}
	maxID := p.next()
	if g.first {
		version += " AND v.max_id = " + maxID
	}
	return "EXISTS (SELECT 1 FROM tracker_clients c, tracker_versions v, tracker_pins n WHERE " + version +
		" AND n.generation = v.generation AND n.max_id = " + maxID + " AND c.number = " + p.next() + " AND c.version = " +
		p.next() +
		" AND n.client_number = c.number AND n.listing = " + p.next() + " AND n.filter = " + p.next() +
		" AND n.page_size = " + p.next() + " AND n.day = " + p.next() + " AND n.view = " + p.next() + ") AND "
}

// args returns what the guard compares with; there is room for a page's own behind them.
func (g guard) args() []any {
	const most = 16
	args := make([]any, 0, most)
	if g.owner == 0 {
		return args
	}
	args = append(args, g.owner, g.st.generation)
	if !g.strict {
		return args
	}
	return append(args, g.st.maxID, g.client.number, g.client.version,
		g.key.listing, g.key.filter, int64(g.key.pageSize), g.st.day, g.view)
}

// remembered returns the state that this process noted for the crawl a moment ago. The guard would compare it with a
// replica's note, which may be a former one.
func (s *Service) remembered(c Client, r *relation, key pinKey, first bool) (guard, bool) {
	last, found := s.pinned.Get(key)
	if !found || !r.counted() || last.view != r.granted || time.Since(last.noted) >= pinRefresh || s.deps.DB.Replicated() {
		return guard{}, false
	}
	return guard{client: c, owner: r.owner, view: r.granted, key: key, st: last.state, first: first, strict: true}, true
}
