-- +goose Up
-- A request's body as internal/pack stores it; body is empty then.
ALTER TABLE material_requests ADD COLUMN packed blob;
