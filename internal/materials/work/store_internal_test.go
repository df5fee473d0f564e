package work

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/round"
)

func TestDue_reads_every_body_once_and_only_a_single_one_is_larger_than_what_fits(t *testing.T) {
	t.Parallel()
	const most = 4000
	for name, sizes := range map[string][]int{
		"all fit":                       {100, 200, 300},
		"one is larger than its share":  {100, 3000, 200, 300},
		"all are larger than theirs":    {1500, 1500, 1500, 1500, 1500, 1500, 1500},
		"one is larger than what fits":  {100, 200, 9000, 300},
		"all are larger than what fits": {5000, 6000, 7000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				s := &store{db}
				rest := make([]round.Round, len(sizes))
				for i, size := range sizes {
					rest[i] = waiting(t, db, int64(i+1), size)
				}
				read := make(map[int64]bool)
				for len(rest) > 0 {
					requests, larger, err := s.due(t.Context(), rest, most)
					if err != nil || len(requests) == 0 {
						t.Fatalf("of %d rounds none is read, %v", len(rest), err)
					}
					together := 0
					for _, p := range requests {
						if p.err != nil || read[p.Round.RequestID] {
							t.Errorf("request %d: %v, read before: %t", p.Round.RequestID, p.err, read[p.Round.RequestID])
						}
						read[p.Round.RequestID] = true
						together += sizes[p.Round.RequestID-1]
					}
					if together > most && len(requests) > 1 {
						t.Errorf("%d bodies of together %d bytes were read at once", len(requests), together)
					}
					rest = larger
				}
				if len(read) != len(sizes) {
					t.Errorf("%d of %d requests were read", len(read), len(sizes))
				}
			})
		})
	}
}

// waiting stores a request whose body has so many bytes.
func waiting(t *testing.T, db *database.DB, id int64, size int) round.Round {
	t.Helper()
	body := fmt.Sprintf(`{"id":%d,"shop_code":"s","comment":"","materials":[]}`, id)
	body = strings.Replace(body, `"comment":"`, `"comment":"`+strings.Repeat("x", size-len(body)), 1)
	err := db.From(t.Context()).Exec(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body,
		trace_id, uid, ticket, created_at, updated_at) VALUES ('acme', ?, 'enqueued', ?, 's', ?, '', ?, ?, 1, 1)`,
		id, []byte{1}, []byte(body), id, id).Error
	if err != nil {
		t.Fatal(err)
	}
	return round.Round{SupplierID: "acme", RequestID: id, UID: id, Number: 1}
}

// A plan is kept by its connection. One that was made while autovacuum knew the table as empty must serve when it has
// many rows.
func TestRequeue_reads_each_waiting_request_once_by_a_plan_of_an_empty_table(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	for _, command := range []string{"VACUUM material_requests", "ANALYZE material_requests"} {
		if err := db.From(t.Context()).Exec(command).Error; err != nil {
			t.Fatal(err)
		}
	}
	const waits, limit = 400, 100
	err := db.InTx(t.Context(), "requeue", func(ctx context.Context) error { // on one connection
		s := &store{db}
		again := func() int {
			rows, err := s.requeue(ctx, waits+1, time.Now(), limit)
			if err != nil {
				t.Fatal(err)
			}
			return len(rows)
		}
		if again() != 0 {
			t.Error("the empty table has work")
		}
		_, err := database.Exec(ctx, db.SQL(ctx), `INSERT INTO material_requests (supplier_id, id, status, digest, shop_code,
			body, trace_id, uid, ticket, created_at, updated_at)
			SELECT 'acme', n, 'enqueued', '', 's', '', '', n, n, 1, 1 FROM generate_series(1, $1::bigint) AS n`, waits)
		if err != nil {
			return err
		}
		if n := again(); n != limit {
			t.Errorf("%d of %d requests are queued again", n, limit)
		}
		var read int64
		_, err = database.One(ctx, db.SQL(ctx), `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
			WHERE relname = 'material_requests'`, nil, &read)
		if most := int64(3 * limit); read > most { // to choose, to lock, to write
			t.Errorf("%d rows are read for %d requests", read, limit)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
