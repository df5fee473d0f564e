-- +goose Up
-- A row that is enqueued IS the outbox: sweep_at says when it is published again, unless its event is stored by then.
-- All that becomes of a request is written by one UPDATE, its estimates beside it: each further row costs as much again.
-- That UPDATE makes a second index entry a row: half-empty leaves have room for it, full ones would be searched and split.
CREATE TABLE material_requests (
    supplier_id          text NOT NULL,
    id                   bigint NOT NULL,
    status               text NOT NULL,
    round                bigint NOT NULL DEFAULT 1,   -- which estimation this is; a redelivery keeps it
    digest               bytea NOT NULL,              -- SHA-256 of the canonical request: equal means same request
    shop_code            text NOT NULL,
    body                 text NOT NULL,               -- the canonical request, JSON
    trace_id             text NOT NULL,               -- X-Request-Id of the call that made it
    sweep_at             bigint,                      -- null: nothing is left to publish
    selected_estimate_id text,
    selected_at          bigint,
    failure              text NOT NULL DEFAULT '',
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    event_at             bigint,                       -- the stored event's own timestamp: an older event changes nothing
    estimates            text,                         -- JSON array; null: none received yet
    unavailable          text,                         -- JSON array
    taken                text NOT NULL DEFAULT '',     -- the webhook-ids of the events received, each between line breaks
    PRIMARY KEY (supplier_id, id) WITH (fillfactor = 45)
);
CREATE INDEX material_requests_outbox ON material_requests (sweep_at) WHERE sweep_at IS NOT NULL;
-- The condition, which listings repeat, keeps lookups by the key off this index: over an empty table it would cost the same.
CREATE INDEX material_requests_newest ON material_requests (supplier_id, created_at, id) WITH (fillfactor = 45) WHERE created_at > 0;
CREATE INDEX material_requests_orders ON material_requests (selected_at DESC, supplier_id, id) WHERE selected_at IS NOT NULL;
