-- +goose Up
-- SQLite has no partitions. The schema has the same number on both engines.
SELECT 1;
