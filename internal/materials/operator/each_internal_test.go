package operator

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// columns are what fill gives a request.
const columns = `supplier_id, id, status, digest, shop_code, body, trace_id, trace_parent, uid, ticket,
	created_at, updated_at`

// fill stores requests of three suppliers: some in the same microsecond, some minutes and some months apart.
func (s *store) fill(ctx context.Context, t *testing.T, from, rows int, at string) {
	t.Helper()
	err := s.db.From(ctx).Exec(fmt.Sprintf(`INSERT INTO material_requests (`+columns+`)
		WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT 's' || (i %% 3), i, CASE i %% 4 WHEN 0 THEN 'failed' WHEN 1 THEN 'enqueued' ELSE 'selected' END,
			'', '', '', '', NULL, i, NULL, %s, 1 FROM n`, from, from+rows-1, at)).Error
	if err == nil {
		err = s.db.From(ctx).Exec(`UPDATE material_requests SET failure = 'x' WHERE status = 'failed'`).Error
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestEach_lists_every_request_once_newest_first_however_they_are_spread_over_time(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		service := New(Deps{DB: db})
		service.store.fill(ctx, t, 1, 2*eachBatch+100, `7000000000000000`)        // one batch of the intake has one time
		service.store.fill(ctx, t, 30_001, eachBatch+500, `7000000100000000 + i`) // a busy moment
		service.store.fill(ctx, t, 50_001, 30, `3000000000000000 + i * 100000000000`)
		for _, filter := range []materials.Filter{{}, {SupplierID: "s1"}, {Status: materials.Selected},
			{Status: materials.Failed}, {SupplierID: "s2", Status: materials.Enqueued},
			{SupplierID: "unknown"}} {
			var want []string
			query := db.From(ctx).Table("material_requests").Select("supplier_id || '/' || id").Order(newestFirst)
			if filter.SupplierID != "" {
				query = query.Where("supplier_id = ?", filter.SupplierID)
			}
			if filter.Status != "" {
				query = query.Where("status = ?", filter.Status)
			}
			if err := query.Scan(&want).Error; err != nil {
				t.Fatal(err)
			}
			for _, limit := range []int{0, 1, 6000} {
				var got []string
				err := service.Each(ctx, filter, limit, func(o materials.Overview) error {
					got = append(got, fmt.Sprintf("%s/%d", o.SupplierID, o.ID))
					return nil
				})
				expected := want
				if limit > 0 {
					expected = want[:min(limit, len(want))]
				}
				if err != nil || !slices.Equal(got, expected) {
					t.Errorf("%+v, at most %d: %d of %d requests, %v", filter, limit, len(got), len(expected), err)
				}
			}
		}
	})
}

func TestVerify_names_what_is_wrong_in_every_batch_and_at_their_edges(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		service := New(Deps{DB: db, Now: db.Now, Events: noEvents{}})
		service.store.fill(ctx, t, 1, 3*verifyBatch/2, `i`) // what is selected has no estimates and no choice
		if err := db.From(ctx).Exec(`UPDATE material_requests SET supplier_id = 's',
			status = CASE WHEN id IN ? THEN 'selected' ELSE 'failed' END`,
			[]int{1, verifyBatch, verifyBatch + 1}).Error; err != nil {
			t.Fatal(err)
		}
		if err := db.From(ctx).Exec(`UPDATE material_requests SET status = 'enqueued' WHERE id IN (2, 3, ?)`,
			3*verifyBatch/2).Error; err != nil {
			t.Fatal(err)
		}
		var done []int64
		ledger, err := service.Verify(ctx, func(_ context.Context, rounds []round.Round) (map[round.Round]bool, error) {
			alive := map[round.Round]bool{}
			for _, r := range rounds {
				alive[r] = r.RequestID == 2
			}
			return alive, nil
		}, func(n int64) { done = append(done, n) })
		want := []string{"request s/1 has no estimates", fmt.Sprintf("request s/%d has no estimates", verifyBatch),
			fmt.Sprintf("request s/%d has no estimates", verifyBatch+1), "request s/1 has no choice",
			fmt.Sprintf("request s/%d has no choice", verifyBatch), fmt.Sprintf("request s/%d has no choice", verifyBatch+1),
			"request s/3 is enqueued and nothing brings its estimates",
			fmt.Sprintf("request s/%d is enqueued and nothing brings its estimates", 3*verifyBatch/2)}
		if err != nil || !slices.Equal(ledger.Faults, want) ||
			!slices.Equal(done, []int64{verifyBatch, 3 * verifyBatch / 2}) ||
			ledger.Requests[materials.Selected] != 3 || ledger.Requests[materials.Enqueued] != 3 ||
			ledger.Requests[materials.Failed] != 3*verifyBatch/2-6 {
			t.Errorf("%v %v %v %v", ledger.Faults, ledger.Requests, done, err)
		}
	})
}

// A statement planned for all parameters must not go through all requests of a supplier for each batch.
func TestPrune_reads_what_it_deletes_however_many_requests_the_supplier_has(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	s := &store{db: db}
	s.fill(t.Context(), t, 1, 4*eachBatch, `i`)
	err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
		var rounds []round.Round
		for uid := int64(3); len(rounds) < pruneBatch; uid += 3 {
			rounds = append(rounds, round.Round{SupplierID: "s0", RequestID: uid, UID: uid, Number: 1})
		}
		read := func() (n int64) {
			err := db.From(ctx).Raw(`SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
				WHERE relname = 'material_requests'`).Scan(&n).Error
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := read()
		err := s.prune(ctx, rounds)
		if n := read() - before; n > 2*pruneBatch {
			t.Errorf("%d rows were read to delete %d", n, pruneBatch)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// noEvents is an outbox in which nothing is stored.
type noEvents struct{ Events }

func (noEvents) BodyOf(_, _, _ string) string { return `NULL` }
