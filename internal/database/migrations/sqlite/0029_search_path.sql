-- +goose Up
-- SQLite's triggers name the tables of their own file. The schema has the same number on both engines.
SELECT 1;
