package apikey_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/apikey"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// ring is the keys of a holder, with their ends.
type ring struct {
	hashes [][32]byte
	ends   []time.Time
}

func (r *ring) Insert(_ context.Context, key apikey.Stored) error {
	if len(key.Last4) != 4 {
		return errors.New("an operator sees " + key.Last4)
	}
	r.hashes, r.ends = append(r.hashes, key.Hash), append(r.ends, time.Time{})
	return nil
}

func (r *ring) Expire(_ context.Context, until time.Time) error {
	for i, end := range r.ends {
		if end.IsZero() || end.After(until) {
			r.ends[i] = until
		}
	}
	return nil
}

func TestRotate_ends_former_keys_after_the_overlap_and_adds_a_new_one(t *testing.T) {
	t.Parallel()
	f := apikey.Format{Prefix: "hub_sk_", Domain: "d\x00"}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var keys ring
	first, err := f.Add(t.Context(), &keys, now)
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.Rotate(t.Context(), &keys, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if want := [][32]byte{f.Hash(first), f.Hash(second)}; first == second || !slices.Equal(keys.hashes, want) {
		t.Error("other keys are stored than were given out")
	}
	if want := []time.Time{now.Add(time.Hour), {}}; !slices.Equal(keys.ends, want) {
		t.Errorf("the keys end at %v, want %v", keys.ends, want)
	}
	if _, err := f.Rotate(t.Context(), &keys, now, 0); err != nil {
		t.Fatal(err)
	}
	for _, end := range keys.ends[:2] {
		if !end.Before(now.Add(-time.Hour)) {
			t.Errorf("without an overlap a former key ends at %v: another process's clock may be behind that", end)
		}
	}
	if !keys.ends[2].IsZero() {
		t.Error("the new key ends")
	}
}

func TestCheckOverlap_takes_0_to_90_days(t *testing.T) {
	t.Parallel()
	for overlap, fine := range map[time.Duration]bool{0: true, 90 * 24 * time.Hour: true, -1: false, 90*24*time.Hour +
		1: false} {
		if err := apikey.CheckOverlap(overlap); (err == nil) != fine || err != nil && errs.KindOf(err) != errs.Invalid {
			t.Errorf("%s: %v", overlap, err)
		}
	}
}
