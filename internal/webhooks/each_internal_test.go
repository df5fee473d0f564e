package webhooks

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// some stores deliveries, the numbers from first to last: a third each of two destinations and one supplier's own.
func some(ctx context.Context, t *testing.T, db *database.DB, first, last int, status Status) {
	t.Helper()
	err := db.From(ctx).Exec(fmt.Sprintf(`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id,
			request_id, status, attempts, series, next_attempt_at, created_at, updated_at)
		WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT 'msg_100000' || (1000000 + i), i, 1, CASE i %% 3 WHEN 0 THEN 'own' WHEN 1 THEN 'acme' ELSE 'other' END,
			CASE i %% 3 WHEN 2 THEN 'other' ELSE 'acme' END, i, '%s', 1, 1, i, 1 + i / 7, 1 FROM n`,
		first, last, status)).Error
	if err != nil {
		t.Fatal(err)
	}
}

func TestEach_hands_over_every_chosen_delivery_once_newest_first_batch_by_batch(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		d := &Dispatcher{store: &store{db}, deps: Deps{Now: time.Now}}
		some(ctx, t, db, 1, 30, Failed)
		some(ctx, t, db, 31, eachBatch+100, Delivered)
		some(ctx, t, db, eachBatch+101, 2*eachBatch+200, Dead)
		some(ctx, t, db, 2*eachBatch+201, 2*eachBatch+220, Pending)
		for _, filter := range []Filter{{}, {SupplierID: "acme"}, {SupplierID: "other", Status: Dead}, {Status: Dead},
			{Status: Failed}, {Status: Pending}, {Status: Delivered}, {SupplierID: "nothing"}} {
			var whole []string
			query := db.From(ctx).Table("webhook_deliveries").Select("id").Order(newestFirst)
			if filter.Status != "" {
				query = query.Where("status = ?", filter.Status)
			}
			if filter.SupplierID != "" {
				query = query.Where("supplier_id = ?", filter.SupplierID)
			}
			if err := query.Scan(&whole).Error; err != nil {
				t.Fatal(err)
			}
			n, err := d.Count(ctx, filter, func(int64) {})
			if err != nil || n != int64(len(whole)) {
				t.Errorf("%+v: %d are counted of %d, %v", filter, n, len(whole), err)
			}
			for _, limit := range []int{0, 1, readAtOnce + 1} {
				want := whole
				if limit > 0 {
					want = whole[:min(limit, len(whole))]
				}
				var got []string
				looked := []int64{0}
				err := d.Each(ctx, filter, limit, func(n int64) { looked = append(looked, n) }, func(one Delivery) error {
					got = append(got, one.ID)
					return nil
				})
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%+v, at most %d: %d of %d deliveries, %v", filter, limit, len(got), len(want), err)
				}
				for i := 1; i < len(looked); i++ {
					if looked[i]-looked[i-1] > eachBatch {
						t.Errorf("%+v: one statement looked at %d", filter, looked[i]-looked[i-1])
					}
				}
			}
		}
	})
}

// What is listed first must not cost what is there in all.
func TestEach_reads_as_many_rows_as_a_batch_has_however_many_there_are(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	s := &store{db}
	some(t.Context(), t, db, 1, 8*eachBatch, Delivered)
	some(t.Context(), t, db, 8*eachBatch+1, 12*eachBatch, Dead)
	if err := db.From(t.Context()).Exec(`ANALYZE webhook_deliveries`).Error; err != nil {
		t.Fatal(err)
	}
	for _, filter := range []Filter{{}, {Status: Dead}, {Status: Pending}, {SupplierID: "acme"}} {
		err := db.InTx(database.ForMaintenance(t.Context()), "test", func(ctx context.Context) error {
			before := s.rowsRead(ctx, t)
			err := s.each(ctx, filter, 3, func(int64) {}, func(Delivery) error { return nil })
			read := s.rowsRead(ctx, t) - before
			if most := int64(eachBatch + 2*readAtOnce); read > most {
				t.Errorf("%+v: %d rows were read", filter, read)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever an operator chooses, a page reads few rows more than it goes through, the first and a deep one, by plans
// that a young connection made.
func TestPlans_of_an_operator_s_deliveries_read_a_batch_however_deep_the_page(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	s := &store{db}
	d := &Dispatcher{store: s, deps: Deps{Now: time.Now}}
	err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
		for _, stored := range []int{0, 8 * looked} {
			if stored > 0 {
				for i, status := range []Status{Delivered, Dead, Failed, Pending} {
					some(ctx, t, db, i*stored/4+1, (i+1)*stored/4, status)
				}
			}
			databasetest.Fold(ctx, t, db, Lists()...)
			for _, filter := range []Filter{{}, {Status: Delivered}, {Status: Dead}, {Status: Failed}, {Status: Pending},
				{SupplierID: "acme"}, {SupplierID: "acme", Status: Dead}, {SupplierID: "acme", Status: Pending}} {
				after := ""
				for page := range 20 {
					before := s.rowsRead(ctx, t)
					_, next, err := d.Recent(ctx, filter, after, 50)
					if err != nil {
						return err
					}
					if read := s.rowsRead(ctx, t) - before; read > 2*looked+200 {
						t.Errorf("page %d of %+v over %d rows: %d were read", page, filter, stored, read)
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
