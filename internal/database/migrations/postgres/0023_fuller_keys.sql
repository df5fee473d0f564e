-- +goose Up
-- An update's second entry for a key finds room: PostgreSQL (from 14 on) deletes the entries of versions that are dead before it
-- splits a leaf for it, so a leaf of a table that is never settled need not stay half empty for good.
ALTER INDEX material_requests_pkey SET (fillfactor = 70);
