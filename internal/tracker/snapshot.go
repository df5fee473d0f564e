package tracker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The snapshot has one record a device, the winner: of the latest day on which any device pinged, or of the day that
// the filter names. Finding the winners reads a whole day, so which ids they are is kept for each state (pagemap.go)
// and shared by all who ask; a page then reads its 500 rows by their ids.

const listSnapshot = "snapshot"

// snapshot returns a page of the devices that pinged on the target date, one record each, by device.
func (s *Service) snapshot(ctx context.Context, c Client, q query) (listing, error) {
	return s.read(ctx, c, func(ctx context.Context, r *relation) (listing, error) {
		key := pinKey{c.number, listSnapshot, q.day, q.page.size}
		first := q.page.number == 1
		if g, ok := s.remembered(c, r, key, first); ok {
			if l, err := s.fleetOf(ctx, r, g, q); err == nil && l.records > 0 {
				return l, nil
			}
		}
		st, err := s.openCursor(ctx, c, r, key, first, func(ctx context.Context, present state) (state, error) {
			return s.snapshotState(ctx, r, present, q.day)
		})
		if err != nil {
			return listing{}, err
		}
		return s.fleetOf(ctx, r, guard{client: c, owner: r.owner, view: r.granted, key: key, st: st, first: first}, q)
	})
}

// fleetOf returns the page of the guard's state.
func (s *Service) fleetOf(ctx context.Context, r *relation, g guard, q query) (listing, error) {
	winners, err := s.winnersOf(ctx, r, g.st)
	if err != nil {
		return listing{}, err
	}
	l := s.newListing(int64(len(winners)), q.page)
	offset := q.page.offset()
	if offset >= l.total {
		return l, nil
	}
	err = s.recordsOf(ctx, r, g, winners[offset:min(offset+int64(q.page.size), l.total)], &l)
	return l, err
}

// snapshotState returns the present state with the target date: the given one, or the latest on which a device pinged.
func (s *Service) snapshotState(ctx context.Context, r *relation, st state, given string) (_ state, err error) {
	if !r.counted() {
		st, err = s.foreignState(ctx, r)
	}
	if err != nil || given != "" {
		st.day = given
		return st, err
	}
	known := mapKey{r.granted, st, "last ping"}
	if m, found := s.maps.get(known); found && r.counted() {
		st.day = m.day
		return st, nil
	}
	where, args := r.upTo(st)
	err = s.rows.Select(ctx, r.lastPing(where), func(row [][]byte) error {
		st.day = string(row[0])
		return nil
	}, args...)
	if err != nil {
		return state{}, fmt.Errorf("read the latest date of a ping: %w", err)
	}
	s.maps.put(known, &pageMap{day: st.day})
	return st, nil
}

// upTo returns the condition that a row belongs to the state.
func (r *relation) upTo(st state) (where string, args []any) {
	if st.maxID == noID {
		return "", nil
	}
	return quote(columnID) + " <= $1", []any{st.maxID}
}

// winnersOf chooses the record of each device of the state's day, by device. Of views not made here nothing is
// remembered: their rows may change without a sign.
func (s *Service) winnersOf(ctx context.Context, r *relation, st state) ([]winner, error) {
	if st.day == "" {
		return nil, nil
	}
	key := mapKey{r.granted, st, listSnapshot}
	if known, found := s.maps.get(key); found && r.counted() {
		return known.winners, nil
	}
	p := newParameters(r)
	condition := p.on(columnPingDate, st.day)
	if st.maxID != noID {
		condition += " AND " + quote(columnID) + " <= " + p.bind(st.maxID)
	}
	order := r.latest(columnPingTime) + ", " + r.latest(columnLoadDate) + ", " + r.latest(columnID)
	generation := "0"
	if r.counted() {
		generation = "(SELECT generation FROM tracker_versions WHERE client_number = " + p.bind(r.owner) + ")"
		order = quote(columnDevice) + ", " + order // as its index has them: then nothing is sorted
	}
	var winners []winner
	chosen := map[int64]bool{}
	err := s.rows.Select(ctx, "SELECT "+generation+", "+quote(columnDevice)+", "+quote(columnID)+" FROM "+r.from+
		" WHERE "+condition+" ORDER BY "+order, func(row [][]byte) error {
		if r.counted() && string(row[0]) != strconv.FormatInt(st.generation, 10) {
			return errMoved
		}
		device, ok := parseInteger(strings.TrimSpace(string(row[1]))) // a text that is no number is no device
		if ok && !chosen[device] {
			chosen[device] = true
			winners = append(winners, winner{device, string(row[2])})
		}
		return nil
	}, p.args...)
	if err != nil {
		return nil, fmt.Errorf("choose the devices' records: %w", err)
	}
	slices.SortFunc(winners, func(a, b winner) int { return cmp.Compare(a.device, b.device) })
	if r.counted() {
		s.maps.put(key, &pageMap{winners: winners})
	}
	return winners, nil
}

// recordsOf reads the winners' rows, in their order.
func (s *Service) recordsOf(ctx context.Context, r *relation, g guard, winners []winner, l *listing) error {
	wanted := make(map[winner]int, len(winners))
	for i, w := range winners {
		wanted[w] = i
	}
	type part struct{ from, to int }
	parts, got := make([]part, len(winners)), 0
	read := s.buffer() // in the database's order
	p := newParameters(r)
	err := s.rows.Select(ctx, p.records(g, winners), func(row [][]byte) error {
		device, _ := parseInteger(strings.TrimSpace(string(row[0])))
		if i, ok := wanted[winner{device, string(row[1])}]; ok && parts[i].to == 0 {
			parts[i].from = len(read)
			read = s.encoder.appendRecord(read, row[2:])
			parts[i].to = len(read)
			got++
		}
		return nil
	}, append(g.args(), p.args...)...)
	if err != nil {
		return fmt.Errorf("read the devices' records: %w", err)
	}
	if got != len(winners) {
		return errMoved
	}
	for _, p := range parts {
		l.separate()
		l.body = append(l.body, read[p.from:p.to]...)
	}
	s.buffers.Put(&read)
	return nil
}

// records returns the statement for the winners' rows.
func (p *parameters) records(g guard, winners []winner) string {
	where := " WHERE " + g.condition(p)
	if !p.r.counted() || !p.r.postgres() {
		return "SELECT " + quote(columnDevice) + ", " + quote(columnID) + ", " + p.r.plain +
			" FROM " + p.r.from + where + p.ids(winners)
	}
	// One by one: a condition on all ids at once may be planned, over an empty table, as a walk through all the client's
	// records.
	numbers := make([]int64, len(winners))
	for i, w := range winners {
		numbers[i], _ = strconv.ParseInt(w.id, 10, 64) // of one of our tables: always a number
	}
	return "SELECT r." + quote(columnDevice) + ", r." + quote(columnID) + ", " + p.r.joined +
		" FROM unnest(" + p.bind(numbers) + "::bigint[]) p(" + quote(columnID) + ") " + p.r.joinByID() + where + "true"
}

// ids returns the condition that a row's id is one of the winners'.
func (p *parameters) ids(winners []winner) string {
	column := quote(columnID)
	if !p.r.postgres() {
		marks := make([]string, len(winners))
		for i, w := range winners {
			marks[i] = p.bind(idArgument(w.id))
		}
		return column + " IN (" + strings.Join(marks, ", ") + ")"
	}
	numbers, texts := make([]int64, 0, len(winners)), make([]string, len(winners))
	for i, w := range winners {
		texts[i] = w.id
		if n, err := strconv.ParseInt(w.id, 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	if p.r.types[columnID] == otherClass && len(numbers) == len(winners) {
		return column + " = ANY(" + p.bind(numbers) + "::bigint[])"
	}
	return column + "::text = ANY(" + p.bind(texts) + "::text[])"
}

// idArgument returns an id as SQLite compares it: a number when it reads as one.
func idArgument(id string) any {
	if n, err := strconv.ParseInt(id, 10, 64); err == nil && strconv.FormatInt(n, 10) == id {
		return n
	}
	return id
}
