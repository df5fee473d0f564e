package operator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// columns are what fill gives a request.
const columns = `supplier_id, id, status, digest, shop_code, body, trace_id, trace_parent, uid, shard,
	due_at, created_at, updated_at`

// fill stores requests of three suppliers: some in the same microsecond, some minutes and some months apart.
func (s *store) fill(ctx context.Context, t *testing.T, from, rows int, at string) {
	t.Helper()
	err := s.db.From(ctx).Exec(fmt.Sprintf(`INSERT INTO material_requests (`+columns+`)
		WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT 's' || (i %% 3), i, CASE i %% 4 WHEN 0 THEN 'failed' WHEN 1 THEN 'enqueued' ELSE 'selected' END,
			'', '', '', '', NULL, i, 0, NULL, %s, 1 FROM n`, from, from+rows-1, at)).Error
	if err == nil {
		err = s.db.From(ctx).Exec(`UPDATE material_requests SET failure = 'x' WHERE status = 'failed'`).Error
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestEach_hands_over_as_many_as_it_may_over_all_pages_and_ends_with_an_error(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		requests := materials.New(materials.Deps{DB: db, Now: db.Now, Flushers: 1})
		t.Cleanup(requests.Close)
		service := New(Deps{DB: db, Requests: requests})
		const stored = 2*eachPage + 100
		service.store.fill(t.Context(), t, 1, stored, `i`)
		refused := errors.New("refused")
		for limit, want := range map[int]int{0: stored, 1: 1, eachPage: eachPage, eachPage + 1: eachPage + 1} {
			var got []int64
			err := service.Each(t.Context(), materials.Filter{}, limit, func(o materials.Overview) error {
				got = append(got, o.UID)
				return nil
			})
			if err != nil || len(got) != want || got[0] != stored || got[want-1] != int64(stored-want+1) {
				t.Errorf("limit %d: %d requests, want %d: %v", limit, len(got), want, err)
			}
		}
		err := service.Each(t.Context(), materials.Filter{}, 0, func(materials.Overview) error { return refused })
		if !errors.Is(err, refused) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestVerify_names_what_is_wrong_in_every_batch_and_at_their_edges(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		service := New(Deps{DB: db, Now: db.Now, Events: noEvents{}})
		service.store.fill(ctx, t, 1, 3*verifyBatch/2, `i`) // the selected ones have no estimates and no choice
		if err := db.From(ctx).Exec(`UPDATE material_requests SET supplier_id = 's',
			status = CASE WHEN id IN ? THEN 'selected' ELSE 'failed' END`,
			[]int{1, verifyBatch, verifyBatch + 1}).Error; err != nil {
			t.Fatal(err)
		}
		if err := db.From(ctx).Exec(`UPDATE material_requests SET status = 'enqueued' WHERE id IN (2, 3, ?)`,
			3*verifyBatch/2).Error; err != nil {
			t.Fatal(err)
		}
		ledger, err := service.Verify(ctx, func(_ context.Context, rounds []round.Round) (map[round.Round]bool, error) {
			alive := map[round.Round]bool{}
			for _, r := range rounds {
				alive[r] = r.RequestID == 2
			}
			return alive, nil
		})
		want := []string{"request s/1 has no estimates", fmt.Sprintf("request s/%d has no estimates", verifyBatch),
			fmt.Sprintf("request s/%d has no estimates", verifyBatch+1), "request s/1 has no choice",
			fmt.Sprintf("request s/%d has no choice", verifyBatch), fmt.Sprintf("request s/%d has no choice", verifyBatch+1),
			"request s/3 is enqueued and nothing brings its estimates",
			fmt.Sprintf("request s/%d is enqueued and nothing brings its estimates", 3*verifyBatch/2)}
		if err != nil || !slices.Equal(ledger.Faults, want) ||
			ledger.Requests[materials.Selected] != 3 || ledger.Requests[materials.Enqueued] != 3 ||
			ledger.Requests[materials.Failed] != 3*verifyBatch/2-6 {
			t.Errorf("%v %v %v", ledger.Faults, ledger.Requests, err)
		}
	})
}

// A statement planned for all parameters must not go through all requests of a supplier for each batch.
func TestPrune_reads_what_it_deletes_however_many_requests_the_supplier_has(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	s := &store{db: db}
	s.fill(t.Context(), t, 1, 20_000, `i`)
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
		deleted, err := s.prune(ctx, rounds, 1)
		if n := read() - before; n > 2*pruneBatch || deleted != pruneBatch {
			t.Errorf("%d rows were read to delete %d", n, deleted)
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

// others has nothing to say about deliveries.
type others struct{ Events }

func (others) End(context.Context, time.Time, string) error { return nil }
func (others) Hold(_ context.Context, rounds []round.Round, _ int64) ([]round.Round, error) {
	return rounds, nil
}
func (others) Forget(context.Context, []round.Round, int64) (events int64, err error) {
	return 0, nil
}

// Retention of an api may run with other times than the command, which said that nothing was left.
func TestPrune_waits_for_another_process_that_prunes(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	s := New(Deps{DB: db, Now: db.Now, Events: others{}})
	s.store.fill(t.Context(), t, 1, 2000, `i`)
	holds, end := make(chan time.Time), make(chan struct{})
	var api sync.WaitGroup
	release := sync.OnceFunc(func() { close(end); api.Wait() })
	defer release()
	api.Go(func() {
		err := db.InTx(context.Background(), "test", func(ctx context.Context) error {
			held, err := db.TryLock(ctx, "retention")
			if err == nil && !held {
				err = errors.New("it is taken")
			}
			holds <- db.Now()
			<-end
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	held := <-holds
	var pruned Pruned
	api.Go(func() {
		var err error
		if pruned, err = s.Prune(context.Background(), Days(time.Now(), 30)); err != nil {
			t.Error(err)
		}
	})
	wait.Until(t, "its first transaction has ended", func() bool {
		var n int64
		return db.From(t.Context()).Raw(`SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'commit%'
			AND state = 'idle' AND state_change > ? AND datname = current_database()`, held).Scan(&n).Error == nil && n > 0
	})
	release()
	if pruned.Requests != 1500 {
		t.Errorf("%d requests are deleted, want the 1,500 that are not enqueued", pruned.Requests)
	}
}

// A request has any number of rounds: a page shows the newest.
func TestRounds_of_a_request_are_the_newest_and_no_other_one_s(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx, s := t.Context(), &store{db: db}
		s.fill(ctx, t, 1, 2, `i`)
		databasetest.Exec(t, db, `UPDATE material_requests SET round = 6 WHERE uid = 1`)
		databasetest.Exec(t, db, `INSERT INTO material_rounds (uid, number, request_id, created_at, supplier_id, status,
				failure)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5)
			SELECT u, i, u, i, 's' || u, 'estimated', '' FROM n, (SELECT 1 AS u UNION ALL SELECT 2) AS r`)
		all := []int64{1, 2, 3, 4, 5, 6}
		for before, want := range map[int][]int64{0: {6}, 2: {4, 5, 6}, 5: all, math.MaxInt32: all} {
			rounds, err := s.roundsOf(ctx, round.Round{SupplierID: "s1", RequestID: 1, UID: 1, Number: 6}, before)
			var got []int64
			for _, r := range rounds {
				got = append(got, r.Number)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("the round and %d before it: %v, want %v: %v", before, got, want, err)
			}
		}
	})
}
