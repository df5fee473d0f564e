package deliveries

import (
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// A process that was stopped between COMMIT and sending gives back what may be another worker's by now, and one whose
// COMMIT got no answer what it has begun once more since.
func TestPutBack_leaves_alone_what_was_begun_by_another_worker_or_at_another_time(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := &store{Tables{db}}
		err := db.From(t.Context()).Exec(`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id,
				request_id, status, worker, attempts, series, next_attempt_at, created_at, updated_at, last_started_at)
			VALUES ('msg_1000x', 1, 1, 'acme', 'acme', 1, 'pending', 8, 1, 1, 1, 1, 1, 1)`).Error
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			worker, begun int64
			attempts      int64
		}{{7, 1, 1}, {8, 2, 1}, {8, 1, 0}} {
			j := Begun{ID: "msg_1000x", Worker: tt.worker, At: time.UnixMicro(tt.begun)}
			if err := (&AttemptStore{s.Tables}).PutBack(t.Context(), []Begun{j}, time.Unix(5, 0)); err != nil {
				t.Fatal(err)
			}
			var attempts int64
			if err := db.From(t.Context()).Raw(`SELECT attempts FROM webhook_deliveries`).Scan(&attempts).Error; err != nil ||
				attempts != tt.attempts {
				t.Errorf("worker %d gave it back: %d attempts are on record, want %d, %v", tt.worker, attempts, tt.attempts, err)
			}
		}
	})
}
