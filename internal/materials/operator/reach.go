package operator

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/supplyhub/supplyhub/internal/materials"
)

const firstReach = time.Hour // what is guessed of a page before one was read

// reach is how far back the pages of all suppliers' requests went of late. It is a guess that saves work, no rule: most
// suppliers have no request in the time that a page spans, and to find none costs less than to find the newest.
type reach struct {
	newest, span atomic.Int64 // of the newest request; how long the last page was, 0: none was read yet
}

// since returns a time before which no request of the page behind a place was probably made.
func (r *reach) since(from place, now time.Time) int64 {
	if span := r.span.Load(); span > 0 {
		return max(0, min(from.at, r.newest.Load())-2*span)
	}
	return max(0, min(from.at, now.UnixMicro())-firstReach.Microseconds())
}

func (r *reach) saw(from place, page []materials.Overview) {
	newest := page[0].CreatedAt.UnixMicro()
	if from.at == math.MaxInt64 {
		r.newest.Store(newest)
	}
	r.span.Store(min(from.at, newest) - page[len(page)-1].CreatedAt.UnixMicro() + 1)
}
