-- +goose Up
-- All times are Unix microseconds, UTC: one meaning and one order on both engines.
-- One row: a copy of the database, or its restore, is the same installation.
CREATE TABLE installation (
    id              text PRIMARY KEY           -- random
);
INSERT INTO installation VALUES (replace(gen_random_uuid()::text, '-', ''));

CREATE TABLE suppliers (
    id              text PRIMARY KEY,
    name            text NOT NULL,
    webhook_url     text NOT NULL DEFAULT '',
    access_ttl      bigint NOT NULL,           -- seconds
    refresh_ttl     bigint NOT NULL,           -- seconds
    scopes          text NOT NULL,             -- separated by spaces
    active          boolean NOT NULL DEFAULT true,
    created_at      bigint NOT NULL,
    updated_at      bigint NOT NULL
);

CREATE TABLE supplier_api_keys (
    hash            bytea PRIMARY KEY,
    supplier_id     text NOT NULL REFERENCES suppliers (id),
    last4           text NOT NULL,
    active_until    bigint,                    -- null: until it is rotated
    created_at      bigint NOT NULL
);
CREATE INDEX supplier_api_keys_supplier ON supplier_api_keys (supplier_id);

CREATE TABLE supplier_webhook_secrets (
    id              text PRIMARY KEY,
    supplier_id     text NOT NULL REFERENCES suppliers (id),
    sealed          bytea NOT NULL,            -- AES-256-GCM, the id as associated data
    active_until    bigint,                    -- null: until it is rotated
    created_at      bigint NOT NULL
);
CREATE INDEX supplier_webhook_secrets_supplier ON supplier_webhook_secrets (supplier_id);

-- A session is a family of refresh tokens: the handle stays, the secret changes at each rotation.
CREATE TABLE sessions (
    id              text PRIMARY KEY,
    supplier_id     text NOT NULL REFERENCES suppliers (id),
    handle_hash     bytea NOT NULL UNIQUE,
    current_hash    bytea NOT NULL,
    generation      bigint NOT NULL DEFAULT 1,
    created_at      bigint NOT NULL,
    last_used_at    bigint NOT NULL,
    expires_at      bigint NOT NULL,
    expiry_day      bigint NOT NULL,           -- the day of expires_at, since 1970: indexed, it costs a rotation nothing
    ended_at        bigint,
    ended_reason    text
) WITH (fillfactor = 80);
CREATE INDEX sessions_supplier ON sessions (supplier_id); -- of all: were it of live ones only, a plan made over the empty table might go through them
CREATE INDEX sessions_expiry ON sessions (expiry_day);
