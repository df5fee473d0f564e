package materials

import (
	"testing"
)

func TestStoredDigest_is_kept_where_making_it_again_needs_a_body_that_is_plain_or_long(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		packed []byte
		want   int
	}{"plain": {nil, 32}, "packed": {make([]byte, digestless), 0}, "packed, long": {make([]byte, digestless+1), 32}} {
		got := intakeItem{digest: make([]byte, 32), packed: c.packed}.storedDigest()
		if got == nil || len(got) != c.want {
			t.Errorf("%s: %d bytes, nil: %t, want %d", name, len(got), got == nil, c.want)
		}
	}
}

//nolint:paralleltest // AllocsPerRun counts what the whole process allocates
func TestIntake_collects_no_spans_when_nothing_is_traced(t *testing.T) {
	s, items := &Service{}, make([]intakeItem, intakeBatch)
	for i := range items {
		items[i].traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	}
	allocated := testing.AllocsPerRun(100, func() {
		_, end := s.traceBatch(t.Context(), items)
		end(nil)
	})
	if allocated > 0 {
		t.Errorf("%v allocations for a batch that nothing traces", allocated)
	}
}
