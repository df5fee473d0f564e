package materials

import "testing"

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
