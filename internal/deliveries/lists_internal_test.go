package deliveries

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/round"
)

func tenth(n int) time.Time { return time.UnixMicro(int64(n) * 100_000) }

// listedRows stores events with a delivery to the own endpoint and one to acme's receiver, the uids from first to last,
// made ten a second but every thirtieth, which was estimated again late.
func listedRows(ctx context.Context, t *testing.T, db *database.DB, first, last int64, status func(uid int64) Status) {
	t.Helper()
	for from := first; from <= last; from += 500 {
		var events, deliveries strings.Builder
		for uid := from; uid <= min(from+499, last); uid++ {
			made := tenth(int(uid))
			if uid%30 == 29 {
				made = tenth(int(uid) + 3000)
			}
			e := round.Event{UID: uid, At: made.UnixMicro(), Nonce: uid}
			fmt.Fprintf(&events, `,(%d, 1, %[1]d, 'acme', '', '', %d)`, uid, e.At)
			for kind, destination := range []string{OwnEndpoint, "acme"} {
				fmt.Fprintf(&deliveries, `,('%s', %d, 1, '%s', 'acme', %[2]d, '%[4]s', 1, 1, 0, %[5]d, %[5]d)`,
					e.WebhookID(round.Kind(kind)), uid, destination, status(uid), e.At)
			}
		}
		exec(ctx, t, db, `INSERT INTO webhook_events (uid, round, nonce, supplier_id, trace_id, body, created_at)
			VALUES `+events.String()[1:])
		exec(ctx, t, db, `INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status,
			attempts, series, next_attempt_at, created_at, updated_at) VALUES `+deliveries.String()[1:])
	}
}

// mixed has one of a hundred dead, one failed and two pending.
func mixed(uid int64) Status {
	switch uid % 100 {
	case 7:
		return Dead
	case 8:
		return Failed
	case 9, 10:
		return Pending
	}
	return Delivered
}

// walked follows a list to its end.
func walked(ctx context.Context, t *testing.T, d *Keeper, f Filter, limit int) (ids []string, pages int) {
	t.Helper()
	for behind, more := (Key{}), true; more; pages++ {
		page, next, err := d.List(ctx, f, behind, limit)
		if err != nil || len(page) > limit || pages > 3000 {
			t.Fatalf("page %d of %+v has %d: %v", pages, f, len(page), err)
		}
		for _, one := range page {
			ids = append(ids, one.ID)
		}
		behind, more = next, !next.IsZero()
	}
	return ids, pages
}

// allFilters are of every shape.
func allFilters() (filters []Filter) {
	for _, of := range []Filter{{}, {Receiver: "acme"}, {SupplierID: "acme"}, {Receiver: "nothing"}} {
		for _, times := range [][2]time.Time{{}, {tenth(100), tenth(4321)}, {tenth(1 << 40)}, {{}, tenth(0)},
			{tenth(300), tenth(200)}} {
			for _, status := range append([]Status{""}, statuses...) {
				f := of
				f.Status, f.Since, f.Until = status, times[0], times[1]
				filters = append(filters, f)
			}
		}
	}
	return filters
}

// samePages compares what lists show with what the table has.
func samePages(ctx context.Context, t *testing.T, db *database.DB, filters ...Filter) {
	t.Helper()
	d := NewKeeper(KeeperDeps{DB: db})
	for i, f := range filters {
		since, until, _ := f.times()
		var want []string
		err := db.From(ctx).Raw(`SELECT id FROM webhook_deliveries WHERE (? = '' OR destination = ?)
			AND (? = '' OR supplier_id = ?) AND (? = '' OR status = ?) AND created_at >= ? AND created_at < ?
			ORDER BY uid DESC, round DESC, CASE destination WHEN 'own' THEN 0 ELSE 1 END DESC`, f.Receiver, f.Receiver,
			f.SupplierID, f.SupplierID, f.Status, f.Status, since, until).Scan(&want).Error
		if err != nil {
			t.Fatal(err)
		}
		limit := []int{100, 997, 61}[i%3]
		got, _ := walked(ctx, t, d, f, limit)
		f.oldest = true
		upwards, _ := walked(ctx, t, d, f, limit)
		slices.Reverse(upwards)
		if !slices.Equal(got, want) || !slices.Equal(upwards, want) {
			t.Errorf("%+v shows %d, and %d from the oldest on, of %d", f, len(got), len(upwards), len(want))
		}
	}
}

func TestLists_page_as_the_table_is_whatever_is_chosen(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		samePages(ctx, t, db, allFilters()...)
		listedRows(ctx, t, db, 1, eventsAtOnce+300, mixed)
		samePages(ctx, t, db, allFilters()...)
		listedRows(ctx, t, db, eventsAtOnce+301, looked+500, mixed) // more than one page looks at
		samePages(ctx, t, db, Filter{SupplierID: "acme", Status: Dead}, Filter{Status: Pending, Since: tenth(300)},
			Filter{Receiver: "acme", Until: tenth(4321)})
		exec(ctx, t, db, `UPDATE webhook_deliveries SET worker = 7, last_started_at = 1
			WHERE status = 'pending' AND uid % 3 = 0`)
		exec(ctx, t, db, `DELETE FROM webhook_deliveries WHERE uid % 7 = 0`)
		exec(ctx, t, db, `DELETE FROM webhook_events WHERE uid % 7 = 0`)
		samePages(ctx, t, db, Filter{}, Filter{Receiver: "acme", Status: Pending},
			Filter{SupplierID: "acme", Since: tenth(100)})
	})
}

// A page may be short, or empty, and goes on: it looks at so many rows.
func TestLists_look_at_so_many_deliveries_a_page(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx, d := t.Context(), NewKeeper(KeeperDeps{DB: db})
		const stored, each = 2*looked + 500, 10
		listedRows(ctx, t, db, 1, stored, func(uid int64) Status {
			if uid%each == each-1 {
				return Delivered // one is the last that a page looks at
			}
			return Dead
		})
		for _, tt := range []struct {
			Filter
			want int
		}{
			{Filter{Receiver: "acme", Until: tenth(50)}, 48}, {Filter{SupplierID: "acme", Until: tenth(50)}, 96},
			{Filter{Status: Delivered}, 2 * stored / each},
		} {
			ids, pages := walked(ctx, t, d, tt.Filter, 2*eventsAtOnce)
			slices.Sort(ids)
			if pages != 3 || len(ids) != tt.want || len(slices.Compact(ids)) != tt.want {
				t.Errorf("%d pages of %+v show %d deliveries, want 3 and %d", pages, tt.Filter, len(ids), tt.want)
			}
		}
	})
}

// requests know two of a supplier.
type requests struct{}

func (requests) Round(_ context.Context, _ string, id int64) (round.Round, error) {
	if id > 2 {
		return round.Round{}, errs.New(errs.NotFound, "")
	}
	return round.Round{SupplierID: "acme", RequestID: id, UID: id, Number: 2}, nil
}

func selfService(t *testing.T, db *database.DB, now time.Time) *SelfService {
	t.Helper()
	cursors, err := cursor.New("a key")
	if err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return now }
	return NewSelfService(SelfServiceDeps{DB: db, Now: clock, Local: time.Now, Requests: requests{}, Cursors: cursors,
		Deliveries: NewKeeper(KeeperDeps{DB: db, Now: clock})})
}

func TestLists_of_a_request_s_deliveries_are_those_of_all_its_rounds(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		for uid := range int64(3) {
			for number := range int64(3) {
				e := round.NewEvent(uid+1, time.UnixMicro(7))
				exec(ctx, t, db, `INSERT INTO webhook_events (uid, round, nonce, supplier_id, trace_id, body, created_at)
					VALUES (?, ?, ?, 'acme', '', '', 7)`, uid+1, number+1, e.Nonce)
				for kind, destination := range []string{OwnEndpoint, "acme"} {
					exec(ctx, t, db, `INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id,
							status, attempts, series, next_attempt_at, created_at, updated_at)
						VALUES (?, ?, ?, ?, 'acme', ?, 'delivered', 1, 1, 0, 7, 1)`, e.WebhookID(round.Kind(kind)), uid+1, number+1,
						destination, uid+1)
				}
			}
		}
		s := selfService(t, db, time.Now())
		for id, want := range map[int64]int{1: 3, 2: 3, 3: 0} {
			filter, query, seen := SentFilter{RequestID: &id}, httpapi.ListQuery{Limit: 2}, 0
			for more := true; more; more = query.Cursor != "" {
				items, next, err := s.List(ctx, "acme", filter, query)
				if err != nil || len(items) > 2 {
					t.Fatalf("%d deliveries: %v", len(items), err)
				}
				seen, query.Cursor = seen+len(items), next
			}
			if seen != want {
				t.Errorf("request %d has %d deliveries, want %d", id, seen, want)
			}
		}
	})
}

// blocksRead is how many the transaction has read so far of the tables and indexes of events and deliveries.
func (s *store) blocksRead(ctx context.Context, t *testing.T) (n int64) {
	t.Helper()
	err := s.DB.From(ctx).Raw(`SELECT sum(pg_stat_get_xact_blocks_fetched(oid)) FROM pg_class
		WHERE relname LIKE 'webhook_events%' OR relname LIKE 'webhook_deliveries%'`).Scan(&n).Error
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Whatever is chosen, a page reads little more than it shows, the first and a deep one, by plans that a young
// connection made over empty tables.
func TestPlans_of_lists_read_a_page_however_deep(t *testing.T) {
	t.Parallel()
	s := &store{Tables{databasetest.Open(t, database.Postgres)}}
	err := s.DB.InTx(t.Context(), "test", func(ctx context.Context) error {
		for _, stored := range []int64{0, 20_000} {
			if stored > 0 {
				listedRows(ctx, t, s.DB, 1, stored, mixed)
			}
			for _, of := range []Filter{{}, {Receiver: "acme"}} {
				for _, status := range append([]Status{""}, statuses...) {
					for _, behind := range []Key{{}, {UID: stored / 2, Round: 1, Kind: 1}, {UID: 300, Round: 1}} {
						for _, timed := range []bool{false, true} {
							f, most := of, int64(400)
							if f.Status = status; timed {
								f.Since, f.Until, most = tenth(int(behind.UID)-150), tenth(int(behind.UID)-50), 1000
							}
							before := s.blocksRead(ctx, t)
							if _, _, err := s.page(ctx, f, behind, 20); err != nil {
								return err
							}
							read := s.blocksRead(ctx, t) - before
							if read > most {
								t.Errorf("behind %v of %d rows %+v reads %d blocks", behind, stored, f, read)
							}
						}
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A request has any number of rounds. A page of its list reads little more than it shows, and a look for rounds little
// more than those, by plans that a young connection made over empty tables.
func TestPlans_of_a_request_with_many_rounds_read_what_is_shown_or_asked(t *testing.T) {
	t.Parallel()
	s := &store{Tables{databasetest.Open(t, database.Postgres)}}
	d := NewKeeper(KeeperDeps{DB: s.DB})
	const rounds = 20_000
	page := func(f Filter, behind Key, limit int) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			rows, _, err := s.page(ctx, f, behind, limit)
			return len(rows), err
		}
	}
	of := Filter{Requests: []int64{9, 2, 1}}
	received, oldest := of, Filter{Requests: []int64{1, 2, 9}, oldest: true}
	received.Receiver = "acme"
	asked := []round.Round{{UID: 2, Number: 7}, {UID: 2, Number: rounds}, {UID: 1, Number: 1}}
	err := s.DB.InTx(t.Context(), "test", func(ctx context.Context) error {
		for _, stored := range []bool{false, true} {
			if stored {
				manyRounds(ctx, t, s, 1, 2, rounds)
			}
			for name, tt := range map[string]struct {
				ask  func(context.Context) (int, error)
				want int
			}{
				"the first page":        {page(of, Key{}, 20), 20},
				"a deep page":           {page(of, Key{2, 900, 1}, 20), 20},
				"into the next request": {page(of, Key{2, 5, 1}, 20), 20},
				"a receiver's page":     {page(received, Key{2, 900, 1}, 1), 1},
				"the oldest":            {page(oldest, Key{}, 20), 20},
				"the oldest, deep":      {page(oldest, Key{1, rounds - 9, 1}, 20), 20},
				"stored": {func(ctx context.Context) (int, error) {
					found, err := d.Stored(ctx, asked)
					return len(found), err
				}, 3},
				"under way": {func(ctx context.Context) (int, error) {
					found, err := d.Underway(ctx, asked)
					return len(found), err
				}, 0},
			} {
				least := int64(math.MaxInt64) // a plan that is made, or made again, reads a few blocks too
				for range 2 {
					before := s.blocksRead(ctx, t)
					n, err := tt.ask(ctx)
					if err != nil || stored && n != tt.want {
						t.Errorf("%s: %d, want %d: %v", name, n, tt.want, err)
					}
					least = min(least, s.blocksRead(ctx, t)-before)
				}
				if least > 300 {
					t.Errorf("%s: %d blocks are read", name, least)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
