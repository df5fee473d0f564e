-- +goose Up
-- Who looks for a receiver's due deliveries: the suppliers are divided into 256 shards, each of which one living worker owns.
CREATE TABLE webhook_shards (
    shard                integer PRIMARY KEY,
    worker               integer NOT NULL               -- 0: nobody
);
INSERT INTO webhook_shards (shard, worker) WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 255) SELECT n, 0 FROM n;

-- 1: it stops, finishes what it began and takes no shards.
ALTER TABLE workers ADD COLUMN leaving integer NOT NULL DEFAULT 0;

-- What is known of each supplier's receiver, beside its address. A supplier without a row has nothing waiting and a clean record.
CREATE TABLE webhook_receivers (
    supplier_id          text PRIMARY KEY,
    shard                integer NOT NULL,              -- follows from supplier_id
    due_at               integer,                       -- no later than its earliest waiting delivery is due; null: none waits
    consecutive_failures integer NOT NULL DEFAULT 0,
    failing_since        integer,                       -- null unless five calls in a row failed
    last_success_at      integer,
    last_failure_at      integer,
    last_error           text NOT NULL DEFAULT '',
    paused_by            text NOT NULL DEFAULT '',     -- supplier, operator or service; empty: it is not paused
    paused_at            integer,
    updated_at           integer NOT NULL
);
CREATE INDEX webhook_receivers_due ON webhook_receivers (shard, due_at) WHERE due_at IS NOT NULL AND paused_by = '';

INSERT INTO webhook_receivers (supplier_id, shard, due_at, updated_at)
SELECT destination, (((coalesce(unicode(substr(tail, 1, 1)), 0) * 37 + coalesce(unicode(substr(tail, 2, 1)), 0)) * 37
        + coalesce(unicode(substr(tail, 3, 1)), 0)) * 37 + coalesce(unicode(substr(tail, 4, 1)), 0)) % 256,
    at, at
FROM (SELECT destination, substr(destination, -4) AS tail, min(next_attempt_at) AS at FROM webhook_deliveries
    WHERE status = 'pending' AND destination <> 'own' GROUP BY destination) AS waiting;
