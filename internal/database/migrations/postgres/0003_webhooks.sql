-- +goose Up
-- No foreign keys: the rows of an event are written and deleted together, and checking each costs a sixth of the insert.
-- Ids are made so that an event leads to its deliveries by their primary key: a second index on them costs as much again.
CREATE TABLE webhook_events (
    key                  text COLLATE "C" PRIMARY KEY, -- supplier/request/round: one event each
    first_id             text NOT NULL,                -- of its delivery to the own endpoint, from which the receiver's follows
    trace_id             text NOT NULL,
    body                 bytea NOT NULL,               -- the bytes that are signed and sent, the same on every attempt
    created_at           bigint NOT NULL
);

CREATE TABLE webhook_deliveries (
    id                   text COLLATE "C" PRIMARY KEY WITH (fillfactor = 45), -- the webhook-id
    event_key            text COLLATE "C" NOT NULL,
    destination          text NOT NULL,                -- 'own', or the supplier's id
    supplier_id          text NOT NULL,
    request_id           bigint NOT NULL,
    status               text NOT NULL,                -- pending, delivered, dead, failed
    attempts             bigint NOT NULL,              -- attempts begun, over all series
    series               bigint NOT NULL,              -- attempts begun since created or redelivered
    next_attempt_at      bigint NOT NULL,              -- while pending: when it is due; during an attempt: when that counts as interrupted
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    -- The last attempt; it moves to webhook_attempts when the next one begins.
    last_started_at      bigint,                       -- null: none yet
    last_duration_us     bigint,                       -- null: under way, or interrupted
    last_status          bigint,                       -- HTTP status, null when there was none
    last_error           text NOT NULL DEFAULT '',
    last_response        bytea                         -- the answer's first 1 KiB
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (destination, next_attempt_at) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_lost ON webhook_deliveries (status, created_at) WHERE status IN ('dead', 'failed');

-- Every attempt of a delivery but its last.
CREATE TABLE webhook_attempts (
    delivery_id          text COLLATE "C" NOT NULL,
    number               bigint NOT NULL,
    started_at           bigint NOT NULL,
    duration_us          bigint,                       -- null: interrupted
    status               bigint,                       -- HTTP status, null when there was none
    error                text NOT NULL DEFAULT '',
    response             bytea,                        -- the answer's first 1 KiB
    PRIMARY KEY (delivery_id, number)
);
