-- +goose Up
-- Whose the rows are, as on PostgreSQL, where a spread database needs it. Rows of the versions before have none.
ALTER TABLE webhook_events ADD COLUMN supplier_id TEXT;
ALTER TABLE webhook_attempts ADD COLUMN supplier_id TEXT;
