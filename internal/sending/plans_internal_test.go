package sending

import (
	"context"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Plans are made once a connection, the first ones over empty tables. The look for due deliveries must not go through
// all that is pending then, nor the claim through all deliveries.
func TestPlans_of_a_young_table_read_what_is_due_and_nothing_else(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_795_000_000, 0)
	for _, visit := range []string{`SELECT 1`, `VACUUM webhook_deliveries`, `ANALYZE webhook_deliveries`} {
		t.Run(visit, func(t *testing.T) {
			t.Parallel()
			s := &young{deliveries.NewTables(databasetest.Open(t, database.Postgres))}
			if err := s.DB.From(t.Context()).Exec(visit).Error; err != nil {
				t.Fatal(err)
			}
			// One connection, which plans over empty tables.
			err := s.DB.InTx(t.Context(), "test", func(ctx context.Context) error {
				if err := (&workerStore{s.Tables}).takeShards(ctx, allShards(), 5); err != nil {
					t.Fatal(err)
				}
				s.walk(ctx, t, now, 0)
				s.pending(ctx, t, 1, 2)
				s.walk(ctx, t, now, 2)
				s.pending(ctx, t, 3, 2000)
				before := s.rowsRead(ctx, t)
				s.walk(ctx, t, now, 4)
				if read := s.rowsRead(ctx, t) - before; read > 40 {
					t.Errorf("%d rows were read", read)
				}
				before = s.rowsRead(ctx, t)
				s.catchUp(ctx, t, now)
				if read := s.rowsRead(ctx, t) - before; read > 20 {
					t.Errorf("%d rows were read after a resume", read)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// young is the tables of a database that holds nothing yet.
type young struct{ deliveries.Tables }

// walk takes what is due of two destinations, two of each at most, through an attempt.
func (s *young) walk(ctx context.Context, t *testing.T, now time.Time, due int) {
	t.Helper()
	found, err := deliveries.NewDueStore(s.DB).Due(ctx, allShards(), now)
	if err != nil || len(found) != min(due, 2) {
		t.Fatalf("%d destinations: %v", len(found), err)
	}
	if locked, err := deliveries.NewDueStore(s.DB).LockDue(ctx, []string{"acme"}, 5); err != nil ||
		len(locked) != min(due, 1) {
		t.Fatalf("%d receivers: %v", len(locked), err)
	}
	claimed, err := deliveries.NewAttemptStore(s.DB).Claim(ctx, map[string]int{deliveries.OwnEndpoint: 2, "acme": 2}, now,
		5, 9)
	if err != nil || len(claimed) != due {
		t.Fatalf("%d deliveries: %v", len(claimed), err)
	}
	if err := deliveries.NewDueStore(s.DB).RefreshDue(ctx, []string{"acme"}, now); err != nil {
		t.Fatal(err)
	}
	if due == 0 {
		return
	}
	jobs, results := make([]deliveries.Begun, len(claimed)), make([]deliveries.Result, len(claimed))
	for i, c := range claimed {
		c.Worker = 5
		jobs[i], results[i] = c.Begun,
			deliveries.NewResult(c.Begun, deliveries.Answer{Status: 200}, deliveries.Outcome{Status: deliveries.Delivered,
				Next: now}, now, time.Second)
	}
	if moved, err := deliveries.NewAttemptStore(s.DB).Finish(ctx, results, now); err != nil || len(moved) != due {
		t.Fatalf("%d deliveries moved: %v", len(moved), err)
	}
	if err := deliveries.NewAttemptStore(s.DB).PutBack(ctx, jobs, now); err != nil {
		t.Fatal(err)
	}
}

// catchUp takes two of what waits for a receiver that is resumed.
func (s *young) catchUp(ctx context.Context, t *testing.T, now time.Time) {
	t.Helper()
	if err := deliveries.NewDueStore(s.DB).CatchUp(ctx, []string{"acme"}, now); err != nil {
		t.Fatal(err)
	}
	claimed, err := deliveries.NewAttemptStore(s.DB).ClaimCatchingUp(ctx, map[string]int{"acme": 2}, now, 5, 9)
	if err != nil || len(claimed) != 2 {
		t.Fatalf("%d deliveries: %v", len(claimed), err)
	}
}

// pending stores due deliveries, the numbers from first to last, one half to each destination.
func (s *young) pending(ctx context.Context, t *testing.T, first, last int) {
	t.Helper()
	for _, statement := range []string{
		`INSERT INTO webhook_events (uid, round, supplier_id, trace_id, body, created_at) SELECT n, 1, 'acme', '', '', 1
			FROM generate_series(?::int, ?::int) AS n`,
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at)
			SELECT 'msg_1000' || n, n, 1, CASE n % 2 WHEN 0 THEN 'own' ELSE 'acme' END, 'acme', n, 'pending', 0, 0, n, n, n
			FROM generate_series(?::int, ?::int) AS n`,
	} {
		if err := s.DB.From(ctx).Exec(statement, first, last).Error; err != nil {
			t.Fatal(err)
		}
	}
	if err := deliveries.NewDueStore(s.DB).MarkDue(ctx, map[string]time.Time{"acme": time.UnixMicro(int64(first))},
		time.UnixMicro(1)); err != nil {
		t.Fatal(err)
	}
}

// rowsRead is how many the transaction has read so far of the package's tables.
func (s *young) rowsRead(ctx context.Context, t *testing.T) (n int64) {
	t.Helper()
	err := s.DB.From(ctx).Raw(`SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables
		WHERE relname LIKE 'webhook%' OR relname LIKE 'list%'`).Scan(&n).Error
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func allShards() []int {
	all := make([]int, round.Shards)
	for shard := range all {
		all[shard] = shard
	}
	return all
}
