-- +goose Up
-- SQLite has no partitions: retention deletes there in batches. The schema has the same number on both engines.
SELECT 1;
