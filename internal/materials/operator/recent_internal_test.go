package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/materials"
)

const makeSuppliers = `INSERT INTO suppliers (id, name, access_ttl, refresh_ttl, scopes, created_at, updated_at)
	WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
	SELECT 'sup' || i, '', 1, 1, '', 1, 1 FROM n`

// Requests of one batch share their time, so that a page may end among those of one moment.
func TestRecent_leads_through_all_suppliers_in_the_one_order_each_request_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := New(Deps{DB: db, Now: db.Now})
		for _, statement := range []string{
			makeSuppliers,
			`INSERT INTO material_requests (` + columns + `)
				WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
				SELECT 'sup' || (10 + i * i % 30), i, CASE i % 3 WHEN 0 THEN 'failed' ELSE 'enqueued' END, '', '', '', '', NULL, i,
				CASE i % 3 WHEN 1 THEN 5 + i END, 1 + i / 25, 1 FROM n`,
			`UPDATE material_requests SET failure = 'x' WHERE status = 'failed'`,
			`UPDATE material_requests SET retry_at = 7 WHERE status = 'enqueued' AND ticket IS NULL`,
		} {
			if err := db.From(t.Context()).Exec(statement).Error; err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			filter       materials.Filter
			where, order string
		}{
			{materials.Filter{}, `true`, newestFirst},
			{materials.Filter{SupplierID: "sup14"}, `supplier_id = 'sup14'`, newestFirst},
			{materials.Filter{Status: materials.Failed}, `status = 'failed'`, newestFirst},
			{materials.Filter{Status: materials.Failed, SupplierID: "sup19"}, `status = 'failed' AND supplier_id = 'sup19'`,
				newestFirst},
			{materials.Filter{Status: materials.Enqueued}, `status = 'enqueued'`,
				`ticket IS NULL, ticket, retry_at, supplier_id, id`},
			{materials.Filter{Status: materials.Enqueued, SupplierID: "sup14"}, `status = 'enqueued' AND supplier_id = 'sup14'`,
				`ticket IS NULL, ticket, retry_at, supplier_id, id`},
		} {
			var want []string
			err := db.From(t.Context()).Raw(`SELECT supplier_id || '/' || id FROM material_requests WHERE ` + c.where +
				` ORDER BY ` + c.order).Scan(&want).Error
			if err != nil || len(want) == 0 {
				t.Fatal(len(want), err)
			}
			got := allPages(t, s, c.filter)
			if !slices.Equal(got, want) {
				t.Errorf("%+v:\n%s\nwant\n%s", c.filter, strings.Join(got, " "), strings.Join(want, " "))
			}
		}
	})
}

func TestPlans_of_a_young_table_find_the_newest_requests_of_each_supplier_by_their_index(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	behind := place{at: 1, supplierID: "a", id: 1}
	keys, keyArgs := (&store{db: db}).newestOf([]string{"a", "b"}, behind, 1, 50)
	near, nearArgs := newestEach(behind, 1, 50)
	far, farArgs := newestEach(behind, 0, 50)
	for statement, args := range map[string][]any{keys: keyArgs, near: nearArgs, far: farArgs} {
		plan := databasetest.Plan(t, db, numbered(statement), args...)
		if !strings.Contains(plan, "material_requests_listed") || strings.Contains(plan, "Seq Scan on material_requests") ||
			statement != near && strings.Contains(plan, "Bitmap Heap Scan on material_requests") {
			t.Errorf("%s\n%s", statement, plan)
		}
	}
}

// numbered has its parameters in PostgreSQL's own form.
func numbered(statement string) string {
	for i := range strings.Count(statement, "?") {
		statement = strings.Replace(statement, "?", fmt.Sprintf("$%d", i+1), 1)
	}
	return statement
}

// How far back a page goes is guessed from the last one. Here times are close and far apart, and the newest go away.
func TestRecent_leads_through_all_suppliers_however_far_back_the_pages_before_went(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := New(Deps{DB: db, Now: db.Now})
		for _, statement := range []string{
			makeSuppliers,
			`INSERT INTO material_requests (` + columns + `)
				WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
				SELECT 'sup' || (10 + i * i % 30), i, 'estimated', '', '', '', '', NULL, i, NULL,
				CASE i / 60 % 2 WHEN 0 THEN 1000000 * i ELSE 60000000 * (i / 60) + i / 10 END, 1 FROM n`,
			``,
			`DELETE FROM material_requests WHERE id > 230`,
			`INSERT INTO material_requests (` + columns + `)
				SELECT 'sup10', 999, 'enqueued', '', '', '', '', NULL, 999, 999, 900000000000, 1`,
		} {
			if err := db.From(t.Context()).Exec(statement).Error; err != nil && statement != "" {
				t.Fatal(err)
			}
			var want []string
			err := db.From(t.Context()).Raw(`SELECT supplier_id || '/' || id FROM material_requests ORDER BY ` + newestFirst).
				Scan(&want).Error
			if got := allPages(t, s, materials.Filter{}); err != nil || !slices.Equal(got, want) {
				t.Errorf("after %s: %v\n%s\nwant\n%s", statement, err, strings.Join(got, " "), strings.Join(want, " "))
			}
		}
	})
}

// allPages are the requests of all pages, as SUPPLIER/REQUEST.
func allPages(t *testing.T, s *Service, filter materials.Filter) (all []string) {
	t.Helper()
	for after, pages := "", 0; pages < 100; pages++ {
		page, next, err := s.Recent(t.Context(), filter, after, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range page {
			all = append(all, fmt.Sprintf("%s/%d", one.SupplierID, one.ID))
		}
		if after = next; next == "" {
			break
		}
	}
	return all
}

// Whatever an operator chooses, a page reads few rows more than it goes through, the first and a deep one, by plans
// that a young connection made.
func TestPlans_of_an_operator_s_requests_read_a_page_however_deep_it_is(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	s := New(Deps{DB: db, Now: db.Now})
	read := func(ctx context.Context) (n int64) {
		err := db.From(ctx).Raw(`SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables
			WHERE relname = 'material_requests'`).Scan(&n).Error
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
		if err := db.From(ctx).Exec(makeSuppliers).Error; err != nil {
			return err
		}
		for _, stored := range []int{0, 3 * looked} {
			if stored > 0 {
				s.store.fill(ctx, t, 1, stored, `1000000000000000 + i * CAST(60000000 AS bigint)`)
				if err := db.From(ctx).Exec(`UPDATE material_requests SET supplier_id = 'sup1' || id % 3,
					ticket = CASE status WHEN 'enqueued' THEN id END`).Error; err != nil {
					return err
				}
			}
			for _, filter := range []materials.Filter{{}, {SupplierID: "sup11"}, {Status: materials.Failed},
				{Status: materials.Failed, SupplierID: "sup11"}, {Status: materials.Enqueued},
				{Status: materials.Enqueued, SupplierID: "sup11"}} {
				after := ""
				for page := range 20 {
					before := read(ctx)
					_, next, err := s.Recent(ctx, filter, after, 50)
					if err != nil {
						return err
					}
					if n := read(ctx) - before; n > 2*looked+200 {
						t.Errorf("page %d of %+v over %d rows: %d were read", page, filter, stored, n)
					}
					if after = next; after == "" {
						break
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
