package work

import (
	"fmt"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/round"
)

func TestRead_reads_every_body_once_and_only_a_single_one_is_larger_than_what_fits(t *testing.T) {
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
					requests, larger, err := s.read(t.Context(), rest, most)
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
		trace_id, uid, shard, due_at, created_at, updated_at) VALUES ('acme', ?, 'enqueued', ?, 's', ?, '', ?, ?, 1, 1, 1)`,
		id, []byte{1}, []byte(body), id, round.ShardOf("acme")).Error
	if err != nil {
		t.Fatal(err)
	}
	return round.Round{SupplierID: "acme", RequestID: id, UID: id, Number: 1}
}
