-- +goose Up
SET LOCAL statement_timeout = 0;

-- What the processes counted in steps of ten seconds, for the console: each adds its own row and deletes what is older than an hour.
CREATE TABLE figures (
    step                 bigint NOT NULL,               -- Unix seconds / 10
    process              bigint NOT NULL,               -- a number of its own for each start
    accepted             bigint NOT NULL,               -- requests, by this process in this step
    delivered            bigint NOT NULL,               -- deliveries, by this process in this step
    backlog              bigint NOT NULL,               -- of all, as this process read it; so are the next
    oldest_ms            bigint NOT NULL,
    dead                 bigint NOT NULL,
    failing              bigint NOT NULL,
    PRIMARY KEY (step, process)
);

-- What failed, for the console's list: few rows, and no write of what does not fail changes it.
CREATE INDEX material_requests_failed ON material_requests (created_at, supplier_id, id) WHERE failure <> '';
