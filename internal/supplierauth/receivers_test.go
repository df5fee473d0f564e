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

// A signature of each secret is in one header: of 160 a receiver refused it as too long, which is final.
func TestWebhookSecrets_of_a_hundred_rotations_are_five(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		id, other := r.supplier(nil).Supplier.ID, r.supplier(nil).Supplier.ID
		for i := range 100 {
			r.clock.advance(time.Second)
			if _, err := r.service.RotateWebhookSecret(t.Context(), id, 168*time.Hour); err != nil {
				t.Fatal(err)
			}
			secrets, err := r.service.WebhookSecrets(t.Context(), id)
			if err != nil || len(secrets) != min(i+2, 5) {
				t.Fatalf("after %d rotations %d secrets sign: %v", i+1, len(secrets), err)
			}
			for age, s := range secrets[:min(i+1, 5)] { // the first one was made before
				if want := r.clock.now().Add(-time.Duration(age) * time.Second); !s.CreatedAt.Equal(want) {
					t.Fatalf("the secret %d was made at %s, want %s", age, s.CreatedAt, want)
				}
			}
		}
		if secrets, err := r.service.WebhookSecrets(t.Context(), other); err != nil || len(secrets) != 1 {
			t.Errorf("another supplier has %d: %v", len(secrets), err)
		}
	})
}
