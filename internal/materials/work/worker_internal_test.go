package work

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/materials"
)

//nolint:paralleltest // AllocsPerRun counts what the whole process allocates
func TestEstimation_collects_no_spans_when_nothing_is_traced(t *testing.T) {
	s, requests := &Service{}, make([]*pending, workBatch)
	for i := range requests {
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		requests[i] = &pending{Request: materials.Request{TraceParent: parent}}
	}
	allocated := testing.AllocsPerRun(100, func() {
		_, end := s.traceBatch(requests)
		end(nil)
	})
	if allocated > 0 {
		t.Errorf("%v allocations for a batch that nothing traces", allocated)
	}
}
