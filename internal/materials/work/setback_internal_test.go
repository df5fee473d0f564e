package work

import (
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/round"
)

func TestEstimation_that_was_put_off_follows_a_clock_that_is_set_back(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.Now()
		if err := db.From(t.Context()).Exec(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body,
			trace_id, uid, shard, created_at, updated_at, due_at)
			VALUES ('acme', 1, 'enqueued', '', '', '', '', 1, 0, 1, 1, 1)`).
			Error; err != nil {
			t.Fatal(err)
		}
		s, ahead := &store{db}, now.Add(time.Hour)
		if err := s.tryAgain(t.Context(), round.Round{SupplierID: "acme", RequestID: 1, UID: 1, Number: 1}, 1,
			ahead.Add(5*time.Second), ahead); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second changes nothing
			if err := s.setBack(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
		for _, after := range []struct {
			wait time.Duration
			want int
		}{{4 * time.Second, 0}, {6 * time.Second, 1}} {
			var due int
			err := db.Reader(t.Context()).Raw(`SELECT count(*) FROM material_requests WHERE due_at <= ?`,
				now.Add(after.wait).UnixMicro()).Scan(&due).Error
			if err != nil || due != after.want {
				t.Errorf("%d estimations are due %s later: %v", due, after.wait, err)
			}
		}
	})
}
