-- +goose Up
-- The span of the call that made a request (W3C Trace Context), so that its whole story is one trace; null: it is not traced.
ALTER TABLE material_requests ADD COLUMN trace_parent text;
ALTER TABLE webhook_events ADD COLUMN trace_parent text;
