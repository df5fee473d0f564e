-- +goose Up
-- Newest first is by uid, the order of acceptance. The condition uid > 0, which lists repeat, holds for every row: it keeps lookups by
-- the key off these indexes, which over an empty table would cost the same.
DROP INDEX material_requests_listed;
DROP INDEX material_requests_failed;
DROP INDEX material_requests_orders;
-- The newest of all suppliers.
CREATE UNIQUE INDEX material_requests_uid ON material_requests (uid) WHERE uid > 0;
-- A supplier's of a status.
CREATE INDEX material_requests_listed ON material_requests (supplier_id, status, uid) WHERE uid > 0;
-- All suppliers' that are enqueued or failed.
CREATE INDEX material_requests_open ON material_requests (status, uid) WHERE uid > 0 AND (status = 'enqueued' OR status = 'failed');
-- All suppliers' orders.
CREATE INDEX material_requests_orders ON material_requests (selected_at, uid) WHERE selected_at IS NOT NULL;
