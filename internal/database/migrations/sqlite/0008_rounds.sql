-- +goose Up
-- The round is what travels: each accepted request has a number that is never used again (uid), and with the round's number it
-- keys the event, its deliveries and the queued work. Rules compare numbers, no times.
CREATE TABLE sequences (
    name                 text PRIMARY KEY,
    value                integer NOT NULL             -- the last one given out
);
INSERT INTO sequences SELECT 'request_numbers', coalesce(max(rowid), 0) FROM material_requests;

DROP INDEX material_requests_outbox;
ALTER TABLE material_requests ADD COLUMN uid integer NOT NULL DEFAULT 0;
ALTER TABLE material_requests ADD COLUMN ticket integer;                    -- the number under which its estimation was last queued; null: none is wanted
ALTER TABLE material_requests ADD COLUMN retry_at integer;                  -- when an estimation that came to nothing is queued again; null: none waits
ALTER TABLE material_requests ADD COLUMN tries integer NOT NULL DEFAULT 0;  -- estimations of this round that came to nothing
ALTER TABLE material_requests ADD COLUMN received integer NOT NULL DEFAULT 0; -- the latest round whose own event was taken
ALTER TABLE material_requests ADD COLUMN posted_at integer;                 -- timestamp of the latest event of this round that somebody else posted
ALTER TABLE material_requests ADD COLUMN round_at integer;                  -- when this round began; null: with the request
ALTER TABLE material_requests RENAME COLUMN taken TO webhook_ids;           -- of the events that others posted, each between line breaks
UPDATE material_requests SET uid = rowid;

-- The rounds of a request that are over; the current one is in the request's row.
CREATE TABLE material_rounds (
    supplier_id          text NOT NULL,
    request_id           integer NOT NULL,
    uid                  integer NOT NULL,
    number               integer NOT NULL,
    status               text NOT NULL,                -- estimated or failed: how it ended
    failure              text NOT NULL,
    created_at           integer NOT NULL,
    PRIMARY KEY (uid, number)
);

DROP INDEX webhook_deliveries_due;
DROP INDEX webhook_deliveries_lost;
ALTER TABLE webhook_events RENAME TO old_events;
ALTER TABLE webhook_deliveries RENAME TO old_deliveries;

CREATE TABLE webhook_events (
    uid                  integer NOT NULL,
    round                integer NOT NULL,
    nonce                integer NOT NULL DEFAULT 0,  -- random; its webhook-ids follow from it, the uid and created_at
    trace_id             text NOT NULL,
    body                 blob NOT NULL,                -- the bytes that are signed and sent, the same on every attempt
    created_at           integer NOT NULL,
    PRIMARY KEY (uid, round)
);

CREATE TABLE webhook_deliveries (
    id                   text PRIMARY KEY,             -- the webhook-id; it follows from the event and the kind of destination
    uid                  integer NOT NULL,
    round                integer NOT NULL,
    destination          text NOT NULL,                -- 'own', or the supplier's id
    supplier_id          text NOT NULL,
    request_id           integer NOT NULL,
    status               text NOT NULL,                -- pending, delivered, dead, failed
    worker               integer,                      -- who attempts it right now; null: nobody
    attempts             integer NOT NULL,             -- attempts begun, over all series
    series               integer NOT NULL,             -- attempts begun since created or redelivered
    next_attempt_at      integer NOT NULL,             -- while pending and not attempted: when it is due
    created_at           integer NOT NULL,
    updated_at           integer NOT NULL,
    -- The last attempt; it moves to webhook_attempts when the next one begins.
    last_started_at      integer,                      -- null: none yet
    last_duration_us     integer,                      -- null: under way, or interrupted
    last_status          integer,                      -- HTTP status, null when there was none
    last_error           text NOT NULL DEFAULT '',
    last_response        blob                          -- the answer's first 1 KiB
);

-- An event whose request is gone, or is an hour younger than it (its id was used again), was deleted by retention.
INSERT INTO webhook_events (uid, round, trace_id, body, created_at)
SELECT r.uid, CAST(replace(e.key, r.supplier_id || '/' || r.id || '/', '') AS integer), e.trace_id, e.body, e.created_at
FROM old_events e JOIN old_deliveries d ON d.id = e.first_id
JOIN material_requests r ON r.supplier_id = d.supplier_id AND r.id = d.request_id
WHERE e.created_at > r.created_at - 3600000000;

INSERT INTO webhook_deliveries
SELECT d.id, r.uid, CAST(replace(d.event_key, r.supplier_id || '/' || r.id || '/', '') AS integer), d.destination, d.supplier_id, d.request_id,
    d.status, NULL, d.attempts, d.series, d.next_attempt_at, d.created_at, d.updated_at,
    d.last_started_at, d.last_duration_us, d.last_status, d.last_error, d.last_response
FROM old_deliveries d JOIN material_requests r ON r.supplier_id = d.supplier_id AND r.id = d.request_id
WHERE d.created_at > r.created_at - 3600000000;

DROP TABLE old_events;
DROP TABLE old_deliveries;

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (destination, next_attempt_at) WHERE status = 'pending' AND worker IS NULL;
CREATE INDEX webhook_deliveries_attempted ON webhook_deliveries (worker) WHERE worker IS NOT NULL;
CREATE INDEX webhook_deliveries_lost ON webhook_deliveries (status, created_at) WHERE status IN ('dead', 'failed');

DELETE FROM webhook_attempts WHERE delivery_id NOT IN (SELECT id FROM webhook_deliveries);

-- Workers that send; one that has not said for a while that it lives loses its attempts to the others.
CREATE TABLE workers (
    id                   integer PRIMARY KEY,
    alive_until          integer NOT NULL
);

-- Reasons named hosts and addresses; from now on a supplier reads them.
UPDATE material_requests SET failure = CASE WHEN failure LIKE 'the estimates could not be delivered%'
    THEN 'The delivery estimates were computed and could not be delivered in the whole retry schedule.'
    ELSE 'The delivery estimates of this request could not be computed.' END WHERE status = 'failed';
UPDATE material_requests SET received = round WHERE event_at IS NOT NULL AND status IN ('estimated', 'selected');
-- What waits for its estimation is queued. What nothing would ever bring is estimated again, in a round of its own.
UPDATE material_requests AS r SET ticket = uid WHERE status = 'enqueued'
    AND NOT EXISTS (SELECT 1 FROM webhook_events e WHERE e.uid = r.uid AND e.round = r.round);
CREATE TABLE own_pending AS SELECT uid, round FROM webhook_deliveries WHERE destination = 'own' AND status = 'pending';
INSERT INTO material_rounds SELECT supplier_id, id, uid, round, 'failed', 'No delivery of its estimates was left.', created_at
    FROM material_requests AS r WHERE status = 'enqueued' AND ticket IS NULL
    AND NOT EXISTS (SELECT 1 FROM own_pending p WHERE p.uid = r.uid AND p.round = r.round);
UPDATE material_requests AS r SET ticket = uid, round = round + 1, round_at = updated_at WHERE status = 'enqueued' AND ticket IS NULL
    AND NOT EXISTS (SELECT 1 FROM own_pending p WHERE p.uid = r.uid AND p.round = r.round);
DROP TABLE own_pending;

ALTER TABLE material_requests DROP COLUMN sweep_at;
ALTER TABLE material_requests DROP COLUMN event_at;
CREATE INDEX material_requests_queued ON material_requests (ticket) WHERE ticket IS NOT NULL;
CREATE INDEX material_requests_retry ON material_requests (retry_at) WHERE retry_at IS NOT NULL;
