-- +goose Up
-- What the operator is to be told and is in no event yet. Rows are only added, so that no two transactions wait for each other.
CREATE TABLE operator_notices (
    id                   integer PRIMARY KEY AUTOINCREMENT,
    type                 text NOT NULL,
    supplier_id          text NOT NULL,
    subject              text NOT NULL,                -- the id of the delivery or request; empty: the receiver
    paused_by            text NOT NULL,
    error                text NOT NULL,
    at                   integer NOT NULL
);

-- Events that the operator's receiver has not taken yet. One that sums up takes more in until its first attempt.
CREATE TABLE operator_events (
    id                   text PRIMARY KEY            , -- the webhook-id
    type                 text NOT NULL,
    supplier_id          text NOT NULL,
    supplier_name        text NOT NULL,
    paused_by            text NOT NULL,
    count                integer NOT NULL,
    ids                  text NOT NULL,                -- JSON array of strings, the first 20
    last_error           text NOT NULL,
    at                   integer NOT NULL,              -- of the first
    due_at               integer NOT NULL,              -- when it is attempted; during an attempt: when that counts as interrupted
    attempts             integer NOT NULL               -- begun
);
CREATE INDEX operator_events_due ON operator_events (due_at);
