-- +goose Up
-- No foreign keys: the rows of an event are written and deleted together, and checking each costs a sixth of the insert.
CREATE TABLE webhook_events (
    key                  text PRIMARY KEY,            -- supplier/request/round: one event each
    supplier_id          text NOT NULL,
    request_id           integer NOT NULL,
    trace_id             text NOT NULL,
    body                 blob NOT NULL,              -- the bytes that are signed and sent, the same on every attempt
    created_at           integer NOT NULL
);

CREATE TABLE webhook_deliveries (
    id                   text PRIMARY KEY,            -- the webhook-id
    event_key            text NOT NULL,
    destination          text NOT NULL,               -- 'own', or the supplier's id
    supplier_id          text NOT NULL,
    request_id           integer NOT NULL,
    status               text NOT NULL,               -- pending, delivered, dead, failed
    attempts             integer NOT NULL DEFAULT 0,   -- attempts begun, over all series
    series               integer NOT NULL DEFAULT 0,   -- attempts begun since created or redelivered
    next_attempt_at      integer NOT NULL,             -- while pending: when it is due; during an attempt: when that counts as interrupted
    created_at           integer NOT NULL,
    updated_at           integer NOT NULL,
    UNIQUE (event_key, destination)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (destination, next_attempt_at) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_lost ON webhook_deliveries (status, created_at) WHERE status IN ('dead', 'failed');

CREATE TABLE webhook_attempts (
    delivery_id          text NOT NULL,
    number               integer NOT NULL,
    started_at           integer NOT NULL,
    duration_us          integer,                      -- null: interrupted; a row is written when the attempt ends
    status               integer,                      -- HTTP status, null when there was none
    error                text NOT NULL DEFAULT '',
    response             blob,                       -- the answer's first 1 KiB
    PRIMARY KEY (delivery_id, number)
);
