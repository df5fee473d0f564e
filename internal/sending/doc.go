// Package sending makes the calls. Of 32 shards of suppliers each is owned by one living worker, which alone claims
// what is due for them, limits receivers and probes the failing ones.
//
// The road of a delivery: Add (outbox.go) stores it and begins its first attempt, if this worker owns the supplier and
// has room; otherwise its owner is woken after the COMMIT by a shard's number (wakeup.go) and claims it (claim.go) as
// it claims every retry. A slot of the scheduler (package dispatch) lets the call be made (dispatcher.go, sender.go;
// which addresses are refused: ssrf.go). Its result is written down (results.go), and the next attempt is due, or none.
//
// Who owns what: a worker holds a lease of 2 s (lease.go). One that does not renew it is dead: others take over what it
// had begun and its shards (ownership.go), and its late writes name its lease and change nothing. A worker itself
// interrupts what it holds in the database and not in memory (reconcile). Rows of workers and shards are in
// store_workers.go and store_shards.go.
package sending
