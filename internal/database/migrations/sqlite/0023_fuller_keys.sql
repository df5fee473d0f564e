-- +goose Up
-- SQLite fills its pages itself. The schema has the same number on both engines.
SELECT 1;
