// Package sending makes the calls. Suppliers are in 32 shards. Each shard is owned by one living worker, which alone
// claims what is due to its receivers, limits these and probes the failing ones.
//
// The path of a delivery: Add (outbox.go) stores it and begins its first attempt, if this worker owns the supplier and
// has room; otherwise a message with the shard's number wakes the owner after the COMMIT (wakeup.go), and the owner
// claims it (claim.go) as it claims every retry. A slot of the scheduler (package dispatch) lets the call be made
// (dispatcher.go, sender.go; which addresses are refused: ssrf.go). Its result is written down (results.go), and the
// next attempt is due, or none.
//
// Who owns what: a worker holds a lease of 2 s (lease.go). One that does not renew it is dead: others take over what it
// had begun and its shards (ownership.go), and its late writes name its lease and change nothing. A worker itself
// interrupts what it holds in the database and not in memory (reconcile). Rows of workers and shards are in
// store_workers.go and store_shards.go.
package sending
