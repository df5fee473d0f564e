-- +goose Up
-- A row that is enqueued and not dispatched IS the outbox: sweep_at says when it is published again. The index knows no
-- other column, so that a change of status alone costs PostgreSQL no index entry (HOT).
CREATE TABLE material_requests (
    supplier_id          text NOT NULL,
    id                   bigint NOT NULL,
    status               text NOT NULL,
    round                bigint NOT NULL DEFAULT 1,   -- which estimation this is; a redelivery keeps it
    digest               bytea NOT NULL,              -- SHA-256 of the canonical request: equal means same request
    shop_code            text NOT NULL,
    body                 text NOT NULL,               -- the canonical request, JSON
    trace_id             text NOT NULL,               -- X-Request-Id of the call that made it
    dispatched_at        bigint,                      -- its deliveries are stored
    sweep_at             bigint,                      -- null: nothing is left to publish
    selected_estimate_id text,
    selected_at          bigint,
    failure              text NOT NULL DEFAULT '',
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    PRIMARY KEY (supplier_id, id)
) WITH (fillfactor = 85);
CREATE INDEX material_requests_outbox ON material_requests (sweep_at) WHERE sweep_at IS NOT NULL;
CREATE INDEX material_requests_newest ON material_requests (supplier_id, created_at DESC, id DESC);
CREATE INDEX material_requests_orders ON material_requests (selected_at DESC, supplier_id, id) WHERE selected_at IS NOT NULL;

CREATE TABLE material_request_estimates (
    supplier_id          text NOT NULL,
    request_id           bigint NOT NULL,
    event_at             bigint NOT NULL,             -- the event's own timestamp: an older event changes nothing
    estimates            text NOT NULL,               -- JSON array
    unavailable          text NOT NULL,               -- JSON array
    received_at          bigint NOT NULL,
    PRIMARY KEY (supplier_id, request_id)
);

CREATE TABLE material_request_webhooks (
    supplier_id          text NOT NULL,
    request_id           bigint NOT NULL,
    webhook_id           text NOT NULL,
    received_at          bigint NOT NULL,
    PRIMARY KEY (supplier_id, request_id, webhook_id)
);
