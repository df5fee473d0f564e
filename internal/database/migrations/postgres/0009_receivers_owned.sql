-- +goose Up
-- Who looks for a receiver's due deliveries: the suppliers are divided into 256 shards, each of which one living worker owns.
CREATE TABLE webhook_shards (
    shard                bigint PRIMARY KEY,
    worker               bigint NOT NULL               -- 0: nobody
);
INSERT INTO webhook_shards (shard, worker) SELECT n, 0 FROM generate_series(0, 255) AS n;

-- 1: it stops, finishes what it began and takes no shards.
ALTER TABLE workers ADD COLUMN leaving bigint NOT NULL DEFAULT 0;

-- What is known of each supplier's receiver, beside its address. A supplier without a row has nothing waiting and a clean record.
CREATE TABLE webhook_receivers (
    supplier_id          text PRIMARY KEY,
    shard                bigint NOT NULL,              -- follows from supplier_id
    due_at               bigint,                       -- no later than its earliest waiting delivery is due; null: none waits
    consecutive_failures bigint NOT NULL DEFAULT 0,
    failing_since        bigint,                       -- null unless five calls in a row failed
    last_success_at      bigint,
    last_failure_at      bigint,
    last_error           text NOT NULL DEFAULT '',
    paused_by            text NOT NULL DEFAULT '',     -- supplier, operator or service; empty: it is not paused
    paused_at            bigint,
    updated_at           bigint NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX webhook_receivers_due ON webhook_receivers (shard, due_at) WHERE due_at IS NOT NULL AND paused_by = '';

INSERT INTO webhook_receivers (supplier_id, shard, due_at, updated_at)
SELECT destination, (((coalesce(ascii(nullif(substr(tail, 1, 1), '')), 0) * 37 + coalesce(ascii(nullif(substr(tail, 2, 1), '')), 0)) * 37
        + coalesce(ascii(nullif(substr(tail, 3, 1), '')), 0)) * 37 + coalesce(ascii(nullif(substr(tail, 4, 1), '')), 0)) % 256,
    at, at
FROM (SELECT destination, right(destination, 4) AS tail, min(next_attempt_at) AS at FROM webhook_deliveries
    WHERE status = 'pending' AND destination <> 'own' GROUP BY destination) AS waiting;
