-- +goose Up
-- Newest first is by uid, the order of acceptance.
DROP INDEX material_requests_listed;
DROP INDEX material_requests_failed;
DROP INDEX material_requests_orders;
-- The newest of all suppliers.
CREATE UNIQUE INDEX material_requests_uid ON material_requests (uid);
-- A supplier's of a status. The condition keeps lookups by the key off this index: over an empty table it would cost the same.
CREATE INDEX material_requests_listed ON material_requests (supplier_id, status, uid) WHERE uid > 0;
-- All suppliers' that are enqueued or failed.
CREATE INDEX material_requests_open ON material_requests (status, uid) WHERE status = 'enqueued' OR status = 'failed';
-- All suppliers' orders.
CREATE INDEX material_requests_orders ON material_requests (selected_at, uid) WHERE selected_at IS NOT NULL;
