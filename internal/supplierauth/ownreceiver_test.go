package supplierauth_test

import (
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func TestWebhookSecrets_an_earlier_one_keeps_its_own_end(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		id := r.supplier(nil).Supplier.ID
		rotate := func(overlap time.Duration) []time.Duration {
			t.Helper()
			r.clock.advance(time.Second)
			if _, err := r.service.RotateWebhookSecret(t.Context(), id, overlap); err != nil {
				t.Fatal(err)
			}
			secrets, err := r.service.WebhookSecrets(t.Context(), id)
			if err != nil || secrets[0].ExpiresAt != nil {
				t.Fatalf("%+v %v", secrets, err)
			}
			var left []time.Duration
			for _, s := range secrets[1:] {
				left = append(left, s.ExpiresAt.Sub(r.clock.now()))
			}
			return left
		}
		if left := rotate(24 * time.Hour); len(left) != 1 || left[0] != 24*time.Hour {
			t.Errorf("%v", left)
		}
		if left := rotate(time.Hour); len(left) != 2 || left[0] != time.Hour || left[1] != 24*time.Hour-time.Second {
			t.Errorf("%v", left)
		}
		if left := rotate(0); len(left) != 0 {
			t.Errorf("%v", left)
		}
	})
}
