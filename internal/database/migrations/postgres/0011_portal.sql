-- +goose Up
-- Browser sessions of suppliers. A link is deleted when it is used, so it works once whatever replica it comes to; ended
-- sessions are deleted. Both hold the SHA-256 of what the supplier has.
CREATE TABLE portal_links (
    hash            bytea PRIMARY KEY,
    supplier_id     text NOT NULL REFERENCES suppliers (id),
    secure          boolean NOT NULL,          -- whether the session's cookie is for https alone
    expires_at      bigint NOT NULL
);
CREATE INDEX portal_links_supplier ON portal_links (supplier_id);

CREATE TABLE portal_sessions (
    hash            bytea PRIMARY KEY,
    supplier_id     text NOT NULL REFERENCES suppliers (id),
    created_at      bigint NOT NULL,
    expires_at      bigint NOT NULL
);
CREATE INDEX portal_sessions_supplier ON portal_sessions (supplier_id);

-- When a supplier's latest test calls were made: Unix microseconds separated by spaces. The limit holds over all replicas.
CREATE TABLE webhook_tests (
    supplier_id     text PRIMARY KEY,
    recent          text NOT NULL
);
