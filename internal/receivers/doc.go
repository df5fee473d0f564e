// Package receivers is what a supplier's receiver is: its state (failures in a row, who paused it), how it changes, and
// what its supplier may do about it. Sending reports the end of each attempt to it (Learn); it stores what it learnt
// once a second, at once when a receiver begins to fail or answers again.
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
// With the first success, and with a resume, the receiver's waiting deliveries are due now. Both make that so before
// they store the new state: a crash in between leaves the old one, and the next success or resume does it again.
//
// A stranger finds: the changes of the state in health.go, its row in store_health.go, how it is shown in view.go and
// condition.go, the supplier's actions in selfservice.go, the test call in testcall.go.
package receivers
