// Package receivers keeps the state of a supplier's receiver (failures in a row, who paused it), and has what its
// supplier may do about it. Package sending reports the end of each attempt (Learn). This is stored once a second, and
// at once when a receiver begins to fail or answers again.
//
//	           5 failures in a row
//	active ───────────────────────────▶ failing
//	   ▲ ◀───────────────────────────────  │
//	   │        first success              │
//	   │                                   │
//	   └── resume ── paused ◀──────────────┘
//	                   by the supplier, by the operator (who alone ends it), or by the service:
//	                   after a 410, or after WEBHOOK_PAUSE_AFTER of failures only
//
// With the first success, and with a resume, the receiver's waiting deliveries are due now. With a success the same
// transaction stores that and the new state. A resume makes them due before it stores the new state: a crash in between
// leaves the receiver paused, and the next resume does it again.
//
// A stranger finds: the changes of the state in health.go, its row in store_health.go, how it is shown in view.go and
// condition.go, the supplier's actions in selfservice.go, the test call in testcall.go.
package receivers
