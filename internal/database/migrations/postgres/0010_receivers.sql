-- +goose Up
-- How many calls a supplier's receiver takes at once, from all workers together; null: RECEIVER_CONCURRENCY.
ALTER TABLE suppliers ADD COLUMN receiver_concurrency bigint;

-- What is new here belongs to every supplier: those made before could not be given it.
UPDATE suppliers SET scopes = trim(scopes || ' webhooks') WHERE ' ' || scopes || ' ' NOT LIKE '% webhooks %';
