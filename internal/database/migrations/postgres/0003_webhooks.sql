-- +goose Up
-- No foreign keys: the rows of an event are written and deleted together, and checking each costs a sixth of the insert.
CREATE TABLE webhook_events (
    key                  text COLLATE "C" PRIMARY KEY, -- supplier/request/round: one event each
    supplier_id          text NOT NULL,
    request_id           bigint NOT NULL,
    trace_id             text NOT NULL,
    body                 bytea NOT NULL,              -- the bytes that are signed and sent, the same on every attempt
    created_at           bigint NOT NULL
);

CREATE TABLE webhook_deliveries (
    id                   text COLLATE "C" PRIMARY KEY, -- the webhook-id
    event_key            text COLLATE "C" NOT NULL,
    destination          text NOT NULL,               -- 'own', or the supplier's id
    supplier_id          text NOT NULL,
    request_id           bigint NOT NULL,
    status               text NOT NULL,               -- pending, delivered, dead, failed
    attempts             bigint NOT NULL DEFAULT 0,   -- attempts begun, over all series
    series               bigint NOT NULL DEFAULT 0,   -- attempts begun since created or redelivered
    next_attempt_at      bigint NOT NULL,             -- while pending: when it is due; during an attempt: when that counts as interrupted
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    UNIQUE (event_key, destination)
) WITH (fillfactor = 80);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (destination, next_attempt_at) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_lost ON webhook_deliveries (status, created_at) WHERE status IN ('dead', 'failed');

CREATE TABLE webhook_attempts (
    delivery_id          text COLLATE "C" NOT NULL,
    number               bigint NOT NULL,
    started_at           bigint NOT NULL,
    duration_us          bigint,                      -- null: interrupted; a row is written when the attempt ends
    status               bigint,                      -- HTTP status, null when there was none
    error                text NOT NULL DEFAULT '',
    response             bytea,                       -- the answer's first 1 KiB
    PRIMARY KEY (delivery_id, number)
);
