package app

import "testing"

func TestPercentFor_collects_less_often_where_little_lives_and_never_more_often_than_go(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 800, 1 << 20: 800, 6 << 20: 400, 8 << 20: 300, 12 << 20: 200,
		24 << 20: 100, 77 << 20: 100, 1 << 40: 100} {
		if got := percentFor(live, 24<<20); got != want {
			t.Errorf("%d MiB: %d, want %d", live>>20, got, want)
		}
	}
}
