package tracker

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/database"
)

// The snapshot has one record a device, the winner: of the latest day on which any device pinged, or of the day that
// the filter names. Finding the winners reads a whole day, so which ids they are is kept for each state (pagemap.go)
// and shared by all who ask; a page then reads its rows by their ids.

const listSnapshot = "snapshot"

// snapshot returns a page of the devices that pinged on the target date, one record each, by device.
func (s *Service) snapshot(ctx context.Context, c Client, q query) (listing, error) {
	return s.read(ctx, c, func(ctx context.Context, r *relation) (listing, error) {
		key := pinKey{c.number, listSnapshot, q.day, q.page.size}
		if !r.counted() {
			return s.uncounted(ctx, c, r, key, q, view.target, view.snapshot)
		}
		return s.counted(ctx, c, r, key, q, s.snapshotState, s.fleetOf)
	})
}

// fleetOf returns the page of the guard's state.
func (s *Service) fleetOf(ctx context.Context, r *relation, g guard, q query) (listing, error) {
	winners, err := s.winnersOf(ctx, r, g.st, q)
	if err != nil {
		return listing{}, err
	}
	l := s.newListing(int64(len(winners)), q)
	l.chosen = placeBytes * len(winners)
	offset := q.page.offset()
	if offset >= l.total {
		return l, nil
	}
	ids := winners[offset:min(offset+int64(q.page.size), l.total)]
	return l, s.fill(ctx, &l, s.rows.Select, len(ids), r.statement(form{strict: g.strict, first: g.first, fleet: true}),
		g.args(s.deps.DB.Values(ids))...)
}

// snapshotState returns the present state with the target date: the given one, or the latest on which a device pinged.
func (s *Service) snapshotState(ctx context.Context, r *relation, st state, q query) (state, error) {
	if st.day = q.day; q.day != "" {
		return st, nil
	}
	known := mapKey{r.granted, st, "last ping"}
	if m, found := s.maps.get(known); found {
		st.day = m.day
		return st, nil
	}
	statement := `SELECT v.generation, v.max_id, (` + r.lastPing(`"id" <= $2`) + `)
		FROM tracker_versions v WHERE v.client_number = $1`
	err := st.read(ctx, s.rows.Select, statement, func(row [][]byte) error {
		st.day = string(row[0])
		return nil
	}, r.owner, st.maxID)
	if err != nil {
		return state{}, fmt.Errorf("read the latest date of a ping: %w", err)
	}
	s.maps.put(known, &pageMap{day: st.day})
	return st, nil
}

// winnersOf chooses the record of each device of the state's day and returns their ids, by device.
func (s *Service) winnersOf(ctx context.Context, r *relation, st state, q query) ([]int64, error) {
	if st.day == "" {
		return nil, nil
	}
	key := mapKey{r.granted, st, listSnapshot}
	if known, found := s.maps.get(key); found {
		return known.winners, nil
	}
	var winners []int64
	var last int64
	err := st.read(ctx, s.rows.Select, r.pingedStatement(), func(row [][]byte) error {
		var device, id int64
		if row[0] == nil {
			return nil
		}
		if err := scanInts(row, &device, &id); err != nil {
			return err
		}
		if len(winners) == 0 || last != device {
			winners, last = append(winners, id), device
			return q.holdDevices(len(winners), listedBytes)
		}
		return nil
	}, r.owner, st.day, st.maxID)
	if err != nil {
		return nil, fmt.Errorf("choose the devices' records: %w", err)
	}
	s.maps.put(key, &pageMap{winners: winners})
	return winners, nil
}

// pingedStatement takes the view's owner, a day and the largest id. Rows come as the view's index has them: nothing is
// sorted. The version has a row of its own, as a day may have none.
func (r *relation) pingedStatement() string {
	return `SELECT generation, max_id, NULL AS device, NULL AS record FROM tracker_versions WHERE client_number = $1
		UNION ALL SELECT NULL, NULL, "imei", "id" FROM (SELECT "imei", "id" FROM ` + r.from + `
			WHERE "data_de_ping" = ` + r.day("$2") + ` AND "id" <= $3
			ORDER BY "imei", "hora_de_ping" DESC NULLS LAST, "dt_carga" DESC, "id" DESC) AS pinged`
}

// keyed returns the rows p of a parameter's numbers, each with its turn: the order in which they are to be shown.
func (r *relation) keyed(parameter string) string {
	return database.Either(r.dialect, `unnest(`+parameter+`::bigint[]) WITH ORDINALITY p("id", turn) `,
		`(SELECT value AS "id", key AS turn FROM json_each(`+parameter+`)) p `)
}

// fleetStatement takes the rows' ids; then the guard's parameters. PostgreSQL reads them one by one: a condition on all
// ids at once may be planned, over an empty table, as a walk through all the client's records. SQLite reads them in
// their turn, as CROSS JOIN says.
func (r *relation) fleetStatement(f form) string {
	return `SELECT ` + r.joined + ` FROM ` + r.keyed(`$1`) + r.byID() + ` WHERE ` + f.guarded(2) +
		database.Either(r.dialect, ` ORDER BY p.turn`, ``)
}
