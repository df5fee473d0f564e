package materials

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// listedRequests stores requests of acme's, the numbers from first to last, ten a second. One of a hundred is selected.
func listedRequests(ctx context.Context, t *testing.T, db *database.DB, first, last int) {
	t.Helper()
	err := db.From(ctx).Exec(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id,
		uid, created_at, updated_at)
		WITH RECURSIVE n(i) AS (SELECT CAST(? AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT 'acme', i, 'estimated', '', '', '{}', '', i, i * 100000, 1 FROM n`, first, last).Error
	if err == nil {
		err = db.From(ctx).Exec(`UPDATE material_requests SET status = 'selected', selected_at = created_at + 5
			WHERE id % 100 = 0`).Error
	}
	if err != nil {
		t.Fatal(err)
	}
}

// samePages compares pages all over the lists with what the table has.
func samePages(ctx context.Context, t *testing.T, db *database.DB) {
	t.Helper()
	s := &store{db: db, events: noEvents{}}
	const byTime = ` ORDER BY created_at DESC, id DESC`
	of := func(status *Status) func(httpapi.Page) (listing, error) {
		return func(p httpapi.Page) (listing, error) { return s.list(ctx, "acme", status, p.Size, p.Offset()) }
	}
	orders := func(p httpapi.Page) (listing, error) { return s.orders(ctx, p.Size, p.Offset()) }
	for _, list := range []struct {
		name, where string
		page        func(httpapi.Page) (listing, error)
	}{
		{"all", `created_at > 0` + byTime, of(nil)},
		{"estimated", `status = 'estimated'` + byTime, of(new(Estimated))},
		{"selected", `status = 'selected'` + byTime, of(new(Selected))},
		{"failed", `status = 'failed'` + byTime, of(new(Failed))},
		{"orders", `selected_at IS NOT NULL ORDER BY selected_at DESC, id`, orders},
	} {
		var want []int64
		if err := db.From(ctx).Raw(`SELECT id FROM material_requests WHERE supplier_id = 'acme' AND ` +
			list.where).Scan(&want).Error; err != nil {
			t.Fatal(err)
		}
		for _, number := range []int{1, 2, 50, 101, (len(want) + 19) / 20, len(want)/20 + 2} {
			page := httpapi.Page{Number: max(number, 1), Size: 20}
			l, err := list.page(page)
			if err != nil {
				t.Fatal(err)
			}
			var ids []int64
			for _, row := range l.rows {
				ids = append(ids, row.ID)
			}
			from := min(int(page.Offset()), len(want))
			if expected := want[from:min(from+page.Size, len(want))]; l.total != int64(len(want)) || !slices.Equal(ids,
				expected) {
				t.Errorf("page %d of %s has of %d %v, want of %d %v", page.Number, list.name, l.total, ids, len(want), expected)
			}
		}
	}
}

func TestLists_of_requests_page_and_count_as_the_table_does(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx, random := t.Context(), rand.New(rand.NewPCG(1, 2))
		listedRequests(ctx, t, db, 1, 5000)
		samePages(ctx, t, db)
		for range 20 {
			statement := []string{
				`UPDATE material_requests SET status = 'failed' WHERE status = 'estimated' AND id % ? = 0`,
				`UPDATE material_requests SET status = 'estimated' WHERE status = 'failed' AND id % ? = 0`,
				`UPDATE material_requests SET updated_at = 2 WHERE id % ? = 0`,
				`UPDATE material_requests SET status = 'selected', selected_at = created_at + 7 WHERE status = 'estimated'
					AND id % ? = 0`,
				`DELETE FROM material_requests WHERE id % (? + 7) = 0`,
			}[random.IntN(5)]
			if err := db.From(ctx).Exec(statement, random.IntN(50)+1).Error; err != nil {
				t.Fatal(err)
			}
			if random.IntN(2) == 0 {
				databasetest.Fold(ctx, t, db, Lists()...)
			}
			samePages(ctx, t, db)
		}
		listedRequests(ctx, t, db, 5001, 9000)
		databasetest.Fold(ctx, t, db, Lists()...)
		samePages(ctx, t, db)
		if err := db.From(ctx).Exec(`DELETE FROM material_requests`).Error; err != nil {
			t.Fatal(err)
		}
		databasetest.Fold(ctx, t, db, Lists()...)
		var blocks int64
		if err := db.From(ctx).Raw(`SELECT count(*) FROM list_counts`).Scan(&blocks).Error; err != nil || blocks != 0 {
			t.Errorf("%d blocks of nothing: %v", blocks, err)
		}
	})
}

func TestLists_whose_rows_a_migration_counted_are_split_into_blocks(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		listedRequests(ctx, t, db, 1, 6000)
		for _, statement := range []string{
			`DELETE FROM list_changes`,
			`INSERT INTO list_counts SELECT 'requests', supplier_id, status, 0, count(*) FROM material_requests
				GROUP BY supplier_id, status`,
			`INSERT INTO list_counts SELECT 'requests', supplier_id, '', 0, count(*) FROM material_requests
				GROUP BY supplier_id`,
			`INSERT INTO list_counts SELECT 'orders', '', '', 0, count(*) FROM material_requests WHERE selected_at IS NOT NULL`,
			`UPDATE material_requests SET status = 'failed' WHERE id % 10 = 1`,
		} {
			if err := db.From(ctx).Exec(statement).Error; err != nil {
				t.Fatal(err)
			}
		}
		samePages(ctx, t, db)
		if err := db.SplitAll(ctx, Lists()...); err != nil {
			t.Fatal(err)
		}
		samePages(ctx, t, db)
		databasetest.Fold(ctx, t, db, Lists()...)
		samePages(ctx, t, db)
		var largest int64
		if err := db.From(ctx).Raw(`SELECT max(n) FROM list_counts`).Scan(&largest).Error; err != nil || largest > 2000 {
			t.Errorf("a block has %d rows: %v", largest, err)
		}
	})
}

// What is not large is read with the page, the rest afterwards; the page does not show which.
func TestLists_have_large_requests_among_others_in_their_place(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		listedRequests(ctx, t, db, 1, 40)
		large := fmt.Sprintf(`{"comment":%q}`, strings.Repeat("x", part))
		if err := db.From(ctx).Exec(`UPDATE material_requests SET body = ? WHERE id % 4 = 0`, large).Error; err != nil {
			t.Fatal(err)
		}
		s := &store{db: db, events: noEvents{}}
		l, err := s.list(ctx, "acme", nil, 20, 10)
		if err != nil {
			t.Fatal(err)
		}
		var ids []int64
		for records, err := range l.records(ctx) {
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
		want := make([]int64, 20)
		for i := range want {
			want[i] = int64(30 - i)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("the page has %v, want %v", ids, want)
		}
	})
}

// A page of a supplier with many requests reads a block's rows and its own, whatever plan a young connection made.
func TestPlans_of_a_supplier_s_requests_read_a_block_and_the_page(t *testing.T) {
	t.Parallel()
	s := &store{db: databasetest.Open(t, database.Postgres), events: noEvents{}}
	const rows = 20_000
	rowsRead := func(ctx context.Context) (n int64) {
		err := s.db.From(ctx).Raw(`SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables
			WHERE relname IN ('material_requests', 'list_counts', 'list_changes')`).Scan(&n).Error
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	err := s.db.InTx(t.Context(), "test", func(ctx context.Context) error { // one connection, which plans over an empty table
		for _, stored := range []int{0, rows} {
			if stored > 0 {
				listedRequests(ctx, t, s.db, 1, stored)
				err := s.db.From(ctx).Exec(`UPDATE material_requests SET status = 'selected', selected_at = created_at + 5
					WHERE id % 2 = 0`).Error
				if err != nil {
					return err
				}
			}
			databasetest.Fold(ctx, t, s.db, Lists()...)
			for _, status := range []*Status{nil, new(Estimated), new(Selected), new(Enqueued)} {
				for _, page := range []int{1, 500, 900} {
					before := rowsRead(ctx)
					l, err := s.list(ctx, "acme", status, 20, int64(page-1)*20)
					if err != nil {
						t.Fatal(err)
					}
					for _, err := range l.records(ctx) {
						if err != nil {
							t.Fatal(err)
						}
					}
					if read := rowsRead(ctx) - before; read > 2200 {
						t.Errorf("page %d over %d rows: %d were read", page, stored, read)
					}
				}
			}
			for _, offset := range []int64{0, 80, int64(stored)/2 - 40} {
				before := rowsRead(ctx)
				if _, err := s.orders(ctx, 20, max(offset, 0)); err != nil {
					t.Fatal(err)
				}
				if read := rowsRead(ctx) - before; read > 2200 {
					t.Errorf("orders behind %d over %d rows: %d were read", offset, stored, read)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// noEvents is an outbox in which nothing is stored.
type noEvents struct{ Outbox }

func (noEvents) BodyOf(_, _, _ string) string { return `NULL` }

func (noEvents) BodyOfOne(_, _, _ string) string { return `NULL` }
