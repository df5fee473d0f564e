-- +goose Up
-- What the processes counted in steps of ten seconds, for the console: each adds its own row and deletes what is older than an hour.
CREATE TABLE figures (
    step                 integer NOT NULL,              -- Unix seconds / 10
    process              integer NOT NULL,              -- a number of its own for each start
    accepted             integer NOT NULL,              -- requests, by this process in this step
    delivered            integer NOT NULL,              -- deliveries, by this process in this step
    backlog              integer NOT NULL,              -- of all, as this process read it; so are the next
    oldest_ms            integer NOT NULL,
    dead                 integer NOT NULL,
    failing              integer NOT NULL,
    PRIMARY KEY (step, process)
) WITHOUT ROWID;

-- What failed, for the console's list: few rows, and no write of what does not fail changes it.
CREATE INDEX material_requests_failed ON material_requests (created_at, supplier_id, id) WHERE failure <> '';
