package materials

import "slices"

// Status is the state of a material request in its life:
//
//	                  estimates received          an estimate chosen
//	[POST] → enqueued ───────────────→ estimated ───────────────────→ selected
//	          │    ↑  ←─────────────── ↑      ↺ newer estimates replace the old ones
//	 estimation    │  re-estimate      │
//	 or delivery   │                   │
//	 given up ↓    │ re-estimate, or   │ estimates received after all
//	         failed  redelivered ──────┘
type Status string

// The states of a material request.
const (
	Enqueued  Status = "enqueued"  // durable; its estimates are being made or delivered
	Estimated Status = "estimated" // its estimates are stored
	Selected  Status = "selected"  // one of its estimates was chosen; final
	Failed    Status = "failed"    // could not be estimated, or not delivered in the whole schedule
)

// Valid reports whether s is one of the four states.
func (s Status) Valid() bool {
	return slices.Contains([]Status{Enqueued, Estimated, Selected, Failed}, s)
}

// CanBecome reports whether the move from s to next is legal.
func (s Status) CanBecome(next Status) bool {
	return slices.Contains(s.successors(), next)
}

func (s Status) successors() []Status {
	switch s {
	case Enqueued:
		return []Status{Estimated, Failed}
	case Estimated:
		return []Status{Estimated, Selected, Enqueued}
	case Failed:
		return []Status{Enqueued, Estimated}
	default:
		return nil
	}
}
