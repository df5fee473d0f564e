package tracker

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// A pool's connections may be to several servers. Here the state was read from one that has all four records, and the
// statements that follow come to one that has two of them, or none, until it has caught up.
func TestState_of_another_server_is_never_combined_with_counts_and_rows_of_one_that_is_behind(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := New(Deps{DB: db, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		t.Cleanup(s.Close)
		if err := s.store.ensureView(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		r, err := s.lookUp(t.Context(), viewName(1))
		if err != nil {
			t.Fatal(err)
		}
		load := func(day string, devices ...string) {
			t.Helper()
			for _, device := range devices {
				databasetest.Exec(t, db, `INSERT INTO tracker_records (client_number, dt_carga, imei, data_de_ping)
					VALUES (1, '`+day+`', `+device+`, '`+day+`')`)
			}
		}
		q := query{page: page{1, 2}, usual: 1 << 20, hold: func(int) error { return nil }}
		st := state{generation: 1, maxID: 4}
		dated := st
		dated.day = "2026-11-21"
		count := func() (counts days, present state, winners []int64, errors []error) {
			t.Helper()
			counts, listErr := s.daysOf(t.Context(), r, st)
			present, pingErr := s.snapshotState(t.Context(), r, st, query{})
			winners, snapshotErr := s.winnersOf(t.Context(), r, dated, q)
			return counts, present, winners, []error{listErr, pingErr, snapshotErr}
		}
		for _, devices := range [][]string{nil, {"1", "2"}} {
			load("2026-11-20", devices...)
			_, _, _, errors := count()
			for i, err := range errors {
				if errs.KindOf(err) != errs.Unavailable {
					t.Errorf("with %d records of 4, count %d ends with %v", len(devices), i, err)
				}
			}
		}
		other := &pageMap{days: days{{"2026-11-20", 4}}, winners: []int64{1, 2, 3, 4}}
		for _, listing := range []string{listListing, listSnapshot} { // counted at the other server
			s.maps.put(mapKey{r.granted, st, listing}, other)
			s.maps.put(mapKey{r.granted, dated, listing}, other)
		}
		if l, err := s.pageOf(t.Context(), r, guard{owner: 1, st: st}, q); err == nil {
			t.Errorf("a page of the list has %d records of %d", l.records, l.total)
		}
		if l, err := s.fleetOf(t.Context(), r, guard{owner: 1, st: dated}, q); err == nil {
			t.Errorf("a page of the snapshot has %d records of %d", l.records, l.total)
		}
		s.maps = newPageMaps()
		load("2026-11-21", "3", "4")
		counts, present, winners, errors := count()
		for i, err := range errors {
			if err != nil {
				t.Errorf("with all records, count %d ends with %v", i, err)
			}
		}
		if counts.total() != 4 || present != dated || len(winners) != 2 {
			t.Errorf("with all records the counts are %v, %v and %v", counts, present, winners)
		}
		none := st
		none.day = "2026-11-22"
		if winners, err := s.winnersOf(t.Context(), r, none, q); err != nil || len(winners) != 0 {
			t.Errorf("on a day without pings there are %v, %v", winners, err)
		}
		databasetest.Exec(t, db, `DELETE FROM tracker_records WHERE id = 1`)
		s.maps = newPageMaps()
		_, _, _, errors = count()
		for i, err := range errors {
			if err == nil || !strings.Contains(err.Error(), errMoved.Error()) || errs.KindOf(err) == errs.Unavailable {
				t.Errorf("after a correction, count %d ends with %v", i, err)
			}
		}
	})
}
