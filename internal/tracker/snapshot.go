package tracker

import (
	"context"
	"fmt"
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
		if !r.counted() {
			return s.uncounted(ctx, c, r, key, q, view.target, view.snapshot)
		}
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
func (s *Service) snapshotState(ctx context.Context, r *relation, st state, given string) (state, error) {
	if given != "" {
		st.day = given
		return st, nil
	}
	known := mapKey{r.granted, st, "last ping"}
	if m, found := s.maps.get(known); found {
		st.day = m.day
		return st, nil
	}
	err := s.rows.Select(ctx, r.lastPing(`"id" <= $1`), func(row [][]byte) error {
		st.day = string(row[0])
		return nil
	}, st.maxID)
	if err != nil {
		return state{}, fmt.Errorf("read the latest date of a ping: %w", err)
	}
	s.maps.put(known, &pageMap{day: st.day})
	return st, nil
}

// winnersOf chooses the record of each device of the state's day, by device. Rows come as the view's index has them:
// nothing is sorted.
func (s *Service) winnersOf(ctx context.Context, r *relation, st state) ([]winner, error) {
	if st.day == "" {
		return nil, nil
	}
	key := mapKey{r.granted, st, listSnapshot}
	if known, found := s.maps.get(key); found {
		return known.winners, nil
	}
	statement := `SELECT (SELECT generation FROM tracker_versions WHERE client_number = $1), "imei", "id" FROM ` + r.from +
		` WHERE "data_de_ping" = ` + r.day("$2") + ` AND "id" <= $3
		ORDER BY "imei", "hora_de_ping" DESC NULLS LAST, "dt_carga" DESC, "id" DESC`
	var winners []winner
	err := s.rows.Select(ctx, statement, func(row [][]byte) error {
		var generation int64
		var w winner
		if err := scanInts(row, &generation, &w.device, &w.id); err != nil {
			return err
		}
		if generation != st.generation {
			return errMoved
		}
		if last := len(winners) - 1; last < 0 || winners[last].device != w.device {
			winners = append(winners, w)
		}
		return nil
	}, r.owner, st.day, st.maxID)
	if err != nil {
		return nil, fmt.Errorf("choose the devices' records: %w", err)
	}
	s.maps.put(key, &pageMap{winners: winners})
	return winners, nil
}

// recordsOf reads the winners' rows, in their order.
func (s *Service) recordsOf(ctx context.Context, r *relation, g guard, winners []winner, l *listing) error {
	wanted := make(map[int64]int, len(winners))
	ids := make([]int64, len(winners))
	for i, w := range winners {
		wanted[w.id], ids[i] = i, w.id
	}
	type part struct{ from, to int }
	parts, got := make([]part, len(winners)), 0
	read := s.buffer() // in the database's order
	p := newParameters(r)
	statement := p.records(g, ids)
	err := s.rows.Select(ctx, statement, func(row [][]byte) error {
		var id int64
		if err := scanInts(row[:1], &id); err != nil {
			return err
		}
		i := wanted[id]
		parts[i].from = len(read)
		read = s.encoder.appendRecord(read, row[1:])
		parts[i].to = len(read)
		got++
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

// records returns the statement for the rows of the ids.
func (p *parameters) records(g guard, ids []int64) string {
	where := " WHERE " + g.condition(p)
	if p.r.postgres() {
		// One by one: a condition on all ids at once may be planned, over an empty table, as a walk through all the client's
		// records.
		return `SELECT r."id", ` + p.r.joined + ` FROM unnest(` + p.bind(ids) + `::bigint[]) p("id") ` + p.r.joinByID() +
			where + `true`
	}
	marks := make([]string, len(ids))
	for i, id := range ids {
		marks[i] = p.bind(id)
	}
	return `SELECT "id", ` + p.r.plain + ` FROM ` + p.r.from + where + `"id" IN (` + strings.Join(marks, ", ") + `)`
}
