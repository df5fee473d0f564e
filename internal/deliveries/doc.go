// Package deliveries keeps the records of webhooks: events, deliveries, their attempts and when receivers are due. It
// sends nothing and knows requests only through its RequestLedger. Package receivers knows the state of receivers, and
// package sending makes the calls; both call this one, and it calls neither.
//
// A stranger finds: the states in delivery.go, what an answer means in schedule.go, what is due in store_due.go, how an
// attempt begins and ends in store.go and the files of the two engines, what a worker holds in store_held.go; lists,
// retention, partitions and verify in the files of these names; the operator's view and redelivery in admin.go, the
// supplier's in sent.go.
//
// # The states of a delivery and of its attempts
//
// A delivery is a row of webhook_deliveries, with its last attempt in it; the attempts before are rows of
// webhook_attempts. The column worker says who attempts it. Each arrow is one transaction, which its letter names.
//
//	           stored with its event
//	     ┌──────────────┴──────────────┐
//	  a  │ not owned, no room,         │ b  owned by the worker that stores it,
//	     │ paused or failing           │    with room
//	     ▼                             ▼
//	┌─────────┐     c claim       ┌─────────┐  e 2xx                  ┌───────────┐
//	│ waiting │──────────────────▶│  begun  │────────────────────────▶│ delivered │
//	│ worker  │                   │ worker  │  e 410; own: 3xx, 4xx   ├───────────┤
//	│ is null │◀──────────────────│ is set  │────────────────────────▶│  failed   │
//	└─────────┘  d given back     └─────────┘  e schedule used up     ├───────────┤
//	  ▲  ▲ │     e try again           │ ─────────────────────────────▶│   dead    │
//	  │  │ │     f interrupted         │                              └───────────┘
//	  │  │ └───────────────────────────┼──────── c, g ──────────────────────▲ │
//	  │  └─────────────────────────────┘                                    │ │
//	  └──────────────────────────────────── h redeliver ────────────────────┴─┘
//
// Waiting and begun are the status pending. Who moves what, in which transaction, and what a crash there leaves:
//
//	a, b  the worker of the estimation, in its own transaction (sending.Add). A crash before the COMMIT leaves nothing.
//	      After it: a is found by the owner at its next look, at most a second later, without the wake-up that was
//	      lost. b is begun and not sent: f.
//	c     the owner of the supplier's shard, "claim deliveries"; for the own endpoint any worker. It locks the receivers
//	      first, so that one that was paused gets nothing more. Of a receiver that was resumed or answers again it claims
//	      what waits in the order of acceptance, due or not (store_catchup.go). A delivery whose last attempt was
//	      interrupted and was its series' last is dead instead. A crash before the COMMIT leaves it waiting, after it: f.
//	d     the worker that began it with its insertion (b) and cannot send it, "give attempts back": the attempt was
//	      never made and does not count. A crash before the COMMIT: f, and then it counts.
//	e     the worker that made the call, "write results". The statement names the worker's lease and the attempt's
//	      number, so that nothing is written for an attempt that is another's by now, nor twice. With it, in the
//	      same transaction: a request that is lost, a receiver that is due again or is paused by a 410, what the
//	      operator is notified of. A crash before the COMMIT: f, and the receiver gets the call once more under the
//	      same webhook-id.
//	f     any worker, once the lease of the one that holds it has run out, "take over a dead worker's attempts"; or the
//	      holder itself, which finds that it does not know of it, "reconcile attempts". The attempt stays on record as
//	      interrupted and counts. A crash before the COMMIT leaves it for the next who looks, 2 s later.
//	g     retention, "end old deliveries": one that waited for too long. The reason is the delivery's; its last
//	      attempt keeps its own error. A crash leaves it for the next run.
//	h     an operator or a supplier, "redeliver". Of a delivery that is waiting the next attempt is due now and its
//	      schedule goes on; any other begins a new series. One that is begun is left to its worker.
//
// A lease names who may write e: see package sending. A delivery to a receiver that is paused, absent or deactivated
// stays waiting, and costs no look.
package deliveries
