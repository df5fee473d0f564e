-- +goose Up
-- The round is what travels: each accepted request has a number that is never used again (uid), and with the round's number it
-- keys the event, its deliveries and the queued work. Rules compare numbers, no times.
SET LOCAL statement_timeout = 0;
SET LOCAL enable_seqscan = on;
SET LOCAL enable_hashjoin = on;
SET LOCAL plan_cache_mode = auto;

CREATE SEQUENCE request_numbers; -- uids and tickets

ALTER TABLE material_requests
    ADD COLUMN uid       bigint NOT NULL DEFAULT nextval('request_numbers'),
    ADD COLUMN ticket    bigint,                     -- the number under which its estimation was last queued; null: none is wanted
    ADD COLUMN retry_at  bigint,                     -- when an estimation that came to nothing is queued again; null: none waits
    ADD COLUMN tries     bigint NOT NULL DEFAULT 0,  -- estimations of this round that came to nothing
    ADD COLUMN received  bigint NOT NULL DEFAULT 0,  -- the latest round whose own event was taken
    ADD COLUMN posted_at bigint,                     -- timestamp of the latest event of this round that somebody else posted
    ADD COLUMN round_at  bigint;                     -- when this round began; null: with the request
ALTER TABLE material_requests ALTER COLUMN uid DROP DEFAULT;
ALTER TABLE material_requests RENAME COLUMN taken TO webhook_ids; -- of the events that others posted, each between line breaks

-- The rounds of a request that are over; the current one is in the request's row.
CREATE TABLE material_rounds (
    supplier_id          text NOT NULL,
    request_id           bigint NOT NULL,
    uid                  bigint NOT NULL,
    number               bigint NOT NULL,
    status               text NOT NULL,                -- estimated or failed: how it ended
    failure              text NOT NULL,
    created_at           bigint NOT NULL,
    PRIMARY KEY (uid, number)
);

ALTER TABLE webhook_events RENAME TO old_events;
ALTER TABLE webhook_deliveries RENAME TO old_deliveries;
DROP INDEX webhook_deliveries_due;
DROP INDEX webhook_deliveries_lost;
ALTER INDEX webhook_events_pkey RENAME TO old_events_pkey;
ALTER INDEX webhook_deliveries_pkey RENAME TO old_deliveries_pkey;

CREATE TABLE webhook_events (
    uid                  bigint NOT NULL,
    round                bigint NOT NULL,
    nonce                bigint NOT NULL DEFAULT 0,   -- random; its webhook-ids follow from it, the uid and created_at
    trace_id             text NOT NULL,
    body                 bytea NOT NULL,               -- the bytes that are signed and sent, the same on every attempt
    created_at           bigint NOT NULL,
    PRIMARY KEY (uid, round)
);

CREATE TABLE webhook_deliveries (
    id                   text COLLATE "C" NOT NULL,    -- the webhook-id; it follows from the event and the kind of destination
    uid                  bigint NOT NULL,
    round                bigint NOT NULL,
    destination          text NOT NULL,                -- 'own', or the supplier's id
    supplier_id          text NOT NULL,
    request_id           bigint NOT NULL,
    status               text NOT NULL,                -- pending, delivered, dead, failed
    worker               bigint,                       -- who attempts it right now; null: nobody
    attempts             bigint NOT NULL,              -- attempts begun, over all series
    series               bigint NOT NULL,              -- attempts begun since created or redelivered
    next_attempt_at      bigint NOT NULL,              -- while pending and not attempted: when it is due
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    -- The last attempt; it moves to webhook_attempts when the next one begins.
    last_started_at      bigint,                       -- null: none yet
    last_duration_us     bigint,                       -- null: under way, or interrupted
    last_status          bigint,                       -- HTTP status, null when there was none
    last_error           text NOT NULL DEFAULT '',
    last_response        bytea                         -- the answer's first 1 KiB
);

-- An event whose request is gone, or is an hour younger than it (its id was used again), was deleted by retention.
INSERT INTO webhook_events (uid, round, trace_id, body, created_at)
SELECT r.uid, split_part(e.key, '/', 3)::bigint, e.trace_id, e.body, e.created_at
FROM old_events e JOIN material_requests r ON r.supplier_id = split_part(e.key, '/', 1) AND r.id = split_part(e.key, '/', 2)::bigint
WHERE e.created_at > r.created_at - 3600000000 ORDER BY r.uid;

INSERT INTO webhook_deliveries
SELECT d.id, r.uid, split_part(d.event_key, '/', 3)::bigint, d.destination, d.supplier_id, d.request_id, d.status, NULL, d.attempts, d.series,
    d.next_attempt_at, d.created_at, d.updated_at, d.last_started_at, d.last_duration_us, d.last_status, d.last_error, d.last_response
FROM old_deliveries d JOIN material_requests r ON r.supplier_id = d.supplier_id AND r.id = d.request_id
WHERE d.created_at > r.created_at - 3600000000 ORDER BY d.id;

DROP TABLE old_events;
DROP TABLE old_deliveries;

ALTER TABLE webhook_deliveries ADD PRIMARY KEY (id) WITH (fillfactor = 45);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (destination, next_attempt_at) WHERE status = 'pending' AND worker IS NULL;
CREATE INDEX webhook_deliveries_attempted ON webhook_deliveries (worker) WHERE worker IS NOT NULL;
CREATE INDEX webhook_deliveries_lost ON webhook_deliveries (status, created_at) WHERE status IN ('dead', 'failed');

DELETE FROM webhook_attempts a WHERE NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.id = a.delivery_id);

-- Workers that send; one that has not said for a while that it lives loses its attempts to the others.
CREATE TABLE workers (
    id                   bigint PRIMARY KEY,
    alive_until          bigint NOT NULL
);

-- Reasons named hosts and addresses; from now on a supplier reads them.
UPDATE material_requests SET failure = CASE WHEN failure LIKE 'the estimates could not be delivered%'
    THEN 'The delivery estimates were computed and could not be delivered in the whole retry schedule.'
    ELSE 'The delivery estimates of this request could not be computed.' END WHERE status = 'failed';
UPDATE material_requests SET received = round WHERE event_at IS NOT NULL AND status IN ('estimated', 'selected');
-- What waits for its estimation is queued. What nothing would ever bring is estimated again, in a round of its own.
UPDATE material_requests r SET ticket = r.uid WHERE status = 'enqueued'
    AND NOT EXISTS (SELECT 1 FROM webhook_events e WHERE e.uid = r.uid AND e.round = r.round);
CREATE TABLE own_pending AS
    SELECT uid, round FROM webhook_deliveries WHERE destination = 'own' AND status = 'pending';
INSERT INTO material_rounds SELECT supplier_id, id, uid, round, 'failed', 'No delivery of its estimates was left.', created_at
    FROM material_requests r WHERE status = 'enqueued' AND ticket IS NULL
    AND NOT EXISTS (SELECT 1 FROM own_pending p WHERE p.uid = r.uid AND p.round = r.round);
UPDATE material_requests r SET ticket = r.uid, round = round + 1, round_at = updated_at WHERE status = 'enqueued' AND ticket IS NULL
    AND NOT EXISTS (SELECT 1 FROM own_pending p WHERE p.uid = r.uid AND p.round = r.round);
DROP TABLE own_pending;

ALTER TABLE material_requests DROP COLUMN sweep_at, DROP COLUMN event_at;
CREATE INDEX material_requests_queued ON material_requests (ticket) WHERE ticket IS NOT NULL;
CREATE INDEX material_requests_retry ON material_requests (retry_at) WHERE retry_at IS NOT NULL;
