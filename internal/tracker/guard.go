package tracker

// guard is what a page's own statement checks beside its rows, so that a page whose state is remembered needs no other:
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

// and is the guard as a condition, to be followed by the page's own; PostgreSQL decides it once a statement.
func (g guard) and(p *places) string {
	if g.owner == 0 {
		return ""
	}
	version := "v.client_number = " + p.place(g.owner) + " AND v.generation = " + p.place(g.st.generation)
	if !g.strict {
		return "EXISTS (SELECT 1 FROM tracker_versions v WHERE " + version + ") AND "
	}
	if g.first {
		version += " AND v.max_id = " + p.place(g.st.maxID)
	}
	return "EXISTS (SELECT 1 FROM tracker_clients c, tracker_versions v, tracker_pins n WHERE " + version +
		" AND c.number = " + p.place(g.client.number) + " AND c.updated_at = " + p.place(g.client.UpdatedAt.UnixMicro()) +
		" AND n.client_number = c.number AND n.listing = " + p.place(g.key.listing) + " AND n.filter = " + p.place(g.key.filter) +
		" AND n.page_size = " + p.place(int64(g.key.pageSize)) + " AND n.generation = v.generation AND n.max_id = " + p.place(g.st.maxID) +
		" AND n.day = " + p.place(g.st.day) + " AND n.view = " + p.place(g.view) + ") AND "
}

// remembered is the state that this process noted for the crawl a moment ago.
func (s *Service) remembered(c Client, r *relation, key pinKey, first bool) (guard, bool) {
	last, found := s.pinned.Get(key)
	if !found || !r.counted() || last.view != r.granted || s.deps.Now().Sub(last.at) >= pinRefresh {
		return guard{}, false
	}
	return guard{client: c, owner: r.owner, view: r.granted, key: key, st: last.state, first: first, strict: true}, true
}
