-- +goose NO TRANSACTION
-- +goose Up
-- Whose the rows are, so that a database that is spread over several servers keeps them beside the supplier's others.
-- Rows of the versions before have none: what was stored is never rewritten.
ALTER TABLE webhook_events ADD COLUMN IF NOT EXISTS supplier_id text;
ALTER TABLE webhook_attempts ADD COLUMN IF NOT EXISTS supplier_id text;
