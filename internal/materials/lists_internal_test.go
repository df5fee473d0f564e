package materials

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// listedRequests stores requests of acme's and others', the numbers from first to last. One of ten is selected, one of
// a thousand of acme's is failed or enqueued, and most of the others'.
func listedRequests(ctx context.Context, t *testing.T, db *database.DB, first, last int) {
	t.Helper()
	err := db.From(ctx).Exec(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id,
		uid, shard, created_at, updated_at, selected_at)
		WITH RECURSIVE n(i) AS (SELECT CAST(? AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT CASE WHEN i % 3 = 0 THEN 's' || (i % 11) ELSE 'acme' END, i,
			CASE WHEN i % 10 = 0 THEN 'selected' WHEN i % 1000 = 1 OR i % 6 = 0 THEN 'failed'
				WHEN i % 1000 = 2 OR i % 3 = 0 THEN 'enqueued' ELSE 'estimated' END,
			'', '', '{}', '', i, 0, i, 1, CASE WHEN i % 10 = 0 THEN i / 7 END FROM n`, first, last).Error
	if err != nil {
		t.Fatal(err)
	}
}

var someFilters = []Filter{{}, {SupplierID: "acme"}, {SupplierID: "acme", Status: Estimated},
	{SupplierID: "s3", Status: Selected}, {SupplierID: "acme", Status: Failed}, {SupplierID: "s9", Status: Enqueued},
	{Status: Enqueued}, {Status: Failed}, {Status: Selected}, {Status: Estimated}, {SupplierID: "unknown"}}

func TestLists_of_requests_have_every_one_once_newest_first_whatever_the_page_s_size(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx, s := t.Context(), &store{db: db, events: noEvents{}}
		listedRequests(ctx, t, db, 1, 3*looked)
		for _, filter := range someFilters {
			var want []int64
			query := db.From(ctx).Table("material_requests").Select("uid").Order("uid DESC")
			if filter.SupplierID != "" {
				query = query.Where("supplier_id = ?", filter.SupplierID)
			}
			if filter.Status != "" {
				query = query.Where("status = ?", filter.Status)
			}
			if err := query.Scan(&want).Error; err != nil {
				t.Fatal(err)
			}
			for _, limit := range []int{7, 100, looked, 3 * looked} {
				var got []int64
				for behind := int64(Newest); behind > 0; {
					page, next, err := s.overviews(ctx, filter, behind, limit)
					if err != nil || len(page) > limit {
						t.Fatal(len(page), err)
					}
					for _, one := range page {
						got = append(got, one.UID)
					}
					behind = next
				}
				if !slices.Equal(got, want) {
					t.Errorf("%+v by %d: %d of %d requests", filter, limit, len(got), len(want))
				}
			}
		}
	})
}

// A page of large requests is read in parts; it does not show which.
func TestLists_have_large_requests_among_others_in_their_place(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		listedRequests(ctx, t, db, 1, 40)
		large := fmt.Sprintf(`{"comment":%q}`, strings.Repeat("x", part))
		if err := db.From(ctx).Exec(`UPDATE material_requests SET supplier_id = 'acme',
			body = CASE id % 4 WHEN 0 THEN ? ELSE body END`, large).Error; err != nil {
			t.Fatal(err)
		}
		l, err := (&store{db: db, events: noEvents{}}).requestsPage(ctx, Filter{SupplierID: "acme"}, 31, 20)
		if err != nil {
			t.Fatal(err)
		}
		var ids, want []int64
		parts, _ := l.parts()
		for _, part := range parts {
			records, err := l.store.records(ctx, part)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if has := r.Comment != nil; has != (r.ID%4 == 0) {
					t.Errorf("request %d has a large body: %t", r.ID, has)
				}
				ids = append(ids, r.ID)
			}
		}
		for i := range int64(20) {
			want = append(want, 30-i)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("the page has %v, want %v", ids, want)
		}
	})
}

// Whatever plan a young connection made, a page of a list reads little more than its rows, at any depth.
func TestPlans_of_lists_read_a_page_however_many_requests_there_are(t *testing.T) {
	t.Parallel()
	s := &store{db: databasetest.Open(t, database.Postgres), events: noEvents{}}
	const rows, limit = 20_000, 20
	read := func(ctx context.Context, list func()) (n int64) {
		var counts [2]int64
		for i := range counts {
			err := s.db.From(ctx).Raw(`SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
				WHERE relname = 'material_requests'`).Scan(&counts[i]).Error
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				list()
			}
		}
		return counts[1] - counts[0]
	}
	// One connection, which plans over an empty table.
	err := s.db.InTx(t.Context(), "test", func(ctx context.Context) error {
		for _, stored := range []int{0, rows} {
			if stored > 0 {
				listedRequests(ctx, t, s.db, 1, stored)
			}
			for _, behind := range []int64{Newest, rows / 2, 40} {
				for _, filter := range someFilters {
					if n := read(ctx, func() {
						if _, _, err := s.overviews(ctx, filter, behind, limit); err != nil {
							t.Fatal(err)
						}
					}); n > 4*(limit+1) && (n > looked+1 || filter.SupplierID != "") {
						t.Errorf("%+v behind %d of %d: %d rows were read", filter, behind, stored, n)
					}
				}
				for _, page := range []func() (listing, error){
					func() (listing, error) { return s.requestsPage(ctx, Filter{SupplierID: "acme"}, behind, limit) },
					func() (listing, error) { return s.ordersPage(ctx, behind/7, behind, limit) },
				} {
					if n := read(ctx, func() {
						l, err := page()
						parts, _ := l.parts()
						for _, part := range parts {
							if _, err := l.store.records(ctx, part); err != nil {
								t.Fatal(err)
							}
						}
						if err != nil {
							t.Fatal(err)
						}
					}); n > 5*(limit+1) {
						t.Errorf("a page behind %d of %d: %d rows were read", behind, stored, n)
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
