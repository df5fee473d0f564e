package materials

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// The hot statements of the version before, which knows nothing of the lists' counts.
const (
	oldIntake = `WITH stored AS (INSERT INTO material_requests (` + intakeColumns + `, counted)
			SELECT 'old', i, 'enqueued', '', '', '{}', '', NULL, nextval('request_numbers'), NULL, ?, 1, true
			FROM generate_series(CAST(? AS bigint), ?) AS i RETURNING 1)
		INSERT INTO status_counts SELECT 'request', 'enqueued', count(*) FROM stored`
	oldReceipts = `WITH taken AS (UPDATE material_requests SET status = 'estimated', estimates = '[]', unavailable = '[]',
			counted = NOT counted WHERE status = 'enqueued' AND supplier_id = ? AND id % 3 <> 0 RETURNING 1)
		INSERT INTO status_counts SELECT 'request', 'enqueued', -count(*) FROM taken`
)

var errKilled = errors.New("killed")

// Each runs on connections of its own, and what it writes last is undone, as that of a process that is killed.
func TestLists_are_exact_at_any_moment_among_writers_of_this_version_and_the_one_before(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	databasetest.CountsAgree(t, db)
	s := &store{db: db, events: noEvents{}}
	ctx, stop := context.WithCancelCause(t.Context())
	writers := []func(context.Context, int) error{
		func(ctx context.Context, i int) error { return s.takeBatch(ctx, "new", i) },
		func(ctx context.Context, i int) error { return s.takeBatch(ctx, "other", i) },
		func(ctx context.Context, i int) error {
			return db.From(ctx).Exec(oldIntake, 9e9+int64(i)*1e5, i*10, i*10+9).Error
		},
		func(ctx context.Context, i int) error {
			return db.From(ctx).Exec(oldReceipts, []string{"new", "old"}[i%2]).Error
		},
		func(ctx context.Context, i int) error {
			return db.From(ctx).Exec(`DELETE FROM material_requests WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM material_requests WHERE id % 10 = ? LIMIT 9 FOR UPDATE SKIP LOCKED))`, i%10).Error
		},
	}
	var writing, watching sync.WaitGroup
	for _, write := range writers {
		writing.Go(func() {
			for i := range 40 {
				err := db.InTx(ctx, "test", func(ctx context.Context) error {
					if err := write(ctx, i); err != nil || i%5 != 4 {
						return err
					}
					return errKilled
				})
				if err != nil && !errors.Is(err, errKilled) {
					stop(err)
					return
				}
			}
		})
	}
	for range 2 {
		watching.Go(func() {
			for ctx.Err() == nil {
				if _, err := db.Fold(ctx, Lists()...); err != nil && ctx.Err() == nil {
					stop(err)
				}
			}
		})
		watching.Go(func() {
			for ctx.Err() == nil {
				if err := s.miscounted(ctx); err != nil && ctx.Err() == nil {
					stop(err)
				}
			}
		})
	}
	writing.Wait()
	stop(nil)
	watching.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := s.miscounted(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// takeBatch takes in a batch and the estimates of the half of it.
func (s *store) takeBatch(ctx context.Context, supplier string, i int) error {
	items := make([]intakeItem, 10)
	for n := range items {
		items[n] = intakeItem{requestKey: requestKey{supplier, int64(i*10 + n)}, body: []byte("{}"), digest: []byte{}}
	}
	now := time.UnixMicro(8e9 + int64(i)*1e5)
	uids, err := s.insert(ctx, items, now)
	if err != nil {
		return err
	}
	var receipts []receiptItem
	for _, item := range items[:5] {
		receipts = append(receipts, receiptItem{requestKey: item.requestKey, uid: uids[item.requestKey], number: 1,
			estimates: "[]", unavailable: "[]"})
	}
	_, err = s.takeReceipts(ctx, receipts, now)
	return err
}

func (s *store) miscounted(ctx context.Context) error {
	for _, list := range Lists() {
		wrong, err := s.db.Miscounts(ctx, list, func(int64) {})
		if err != nil {
			return err
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%+v", wrong)
		}
	}
	return nil
}

func TestLists_of_one_moment_of_a_clock_set_back_and_of_a_first_request_page_and_count_as_the_table_does(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		samePages(ctx, t, db)
		listedRequests(ctx, t, db, 1, 1)
		samePages(ctx, t, db)
		databasetest.Fold(ctx, t, db, Lists()...)
		samePages(ctx, t, db)
		listedRequests(ctx, t, db, 10_001, 13_000)
		databasetest.Fold(ctx, t, db, Lists()...)
		for i, at := range []string{`600000000`, `600000000 + id % 5`} {
			listedRequests(ctx, t, db, 2, 2500) // older than what was there
			if err := db.From(ctx).Exec(`DELETE FROM material_requests WHERE id > 10000 AND id % 7 = 0`).Error; err != nil {
				t.Fatal(err)
			}
			samePages(ctx, t, db)
			databasetest.Fold(ctx, t, db, Lists()...)
			samePages(ctx, t, db)
			if err := db.From(ctx).Exec(`DELETE FROM material_requests WHERE id BETWEEN 2 AND 2500`).Error; err != nil {
				t.Fatal(err)
			}
			databasetest.Fold(ctx, t, db, Lists()...)
			err := db.From(ctx).Exec(fmt.Sprintf(`INSERT INTO material_requests (`+intakeColumns+`)
				WITH RECURSIVE n(id) AS (SELECT 20001 UNION ALL SELECT id + 1 FROM n WHERE id < 24500)
				SELECT 'acme', id + %d, 'estimated', '', '', '{}', '', NULL, id, NULL, %s, 1 FROM n`, i*10_000, at)).Error
			if err != nil {
				t.Fatal(err)
			}
			samePages(ctx, t, db)
			databasetest.Fold(ctx, t, db, Lists()...)
			samePages(ctx, t, db)
		}
		if err := (&store{db: db, events: noEvents{}}).miscounted(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestMiscounts_compares_every_series_of_many_owners_and_says_how_many_rows_it_has_counted(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		const owners = 230
		err := db.From(ctx).Exec(`INSERT INTO material_requests (`+intakeColumns+`)
			WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < ?)
			SELECT 'o' || (1000 + id), id, 'estimated', '', '', '{}', '', NULL, id, NULL, 600000000 + id, 1 FROM n`,
			owners).Error
		if err != nil {
			t.Fatal(err)
		}
		for _, folded := range []bool{false, true} {
			if folded {
				databasetest.Fold(ctx, t, db, Lists()...)
			}
			var said []int64
			wrong, err := db.Miscounts(ctx, requestList, func(n int64) { said = append(said, n) })
			if err != nil || len(wrong) > 0 || len(said) < 3 || said[len(said)-1] != 2*owners || !slices.IsSorted(said) {
				t.Errorf("folded %t: %v, %v, said %v", folded, wrong, err, said)
			}
		}
		for _, damage := range []string{`UPDATE list_counts SET n = n + 1 WHERE owner = 'o1230'`,
			`DELETE FROM list_counts WHERE owner IN ('o1001', 'o1101', 'o1201')`, `DELETE FROM list_counts`} {
			result := db.From(ctx).Exec(damage)
			if result.Error != nil {
				t.Fatal(result.Error)
			}
			wrong, err := db.Miscounts(ctx, requestList, func(int64) {})
			if err != nil || int64(len(wrong)) != result.RowsAffected {
				t.Errorf("%s: of %d wrong ones %d are found, %v", damage, result.RowsAffected, len(wrong), err)
			}
			for _, m := range wrong {
				if done, err := db.Recount(ctx, requestList, m.Series); !done || err != nil {
					t.Fatal(done, err)
				}
			}
		}
	})
}

func TestLists_whose_counts_are_wrong_are_named_and_counted_anew(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		listedRequests(ctx, t, db, 1, 4000)
		databasetest.Fold(ctx, t, db, Lists()...)
		listedRequests(ctx, t, db, 4001, 4100)
		for _, damage := range []string{`DELETE FROM list_counts WHERE start > 0`, `UPDATE list_counts SET n = n + 7`,
			`DELETE FROM list_counts`,
			`INSERT INTO list_counts VALUES ('requests', 'unknown', 'failed', 0, 3)`} {
			if err := db.From(ctx).Exec(damage).Error; err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, list := range Lists() {
				wrong, err := db.Miscounts(ctx, list, func(int64) {})
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range wrong {
					if done, err := db.Recount(ctx, list, m.Series); !done || err != nil {
						t.Fatal(done, err)
					}
				}
				found += len(wrong)
			}
			if err := (&store{db: db, events: noEvents{}}).miscounted(ctx); found == 0 || err != nil {
				t.Errorf("%s: %d were found, then %v", damage, found, err)
			}
			samePages(ctx, t, db)
		}
		databasetest.Fold(ctx, t, db, Lists()...)
		samePages(ctx, t, db)
	})
}
