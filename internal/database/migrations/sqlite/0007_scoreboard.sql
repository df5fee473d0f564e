-- +goose Up
CREATE TABLE scoreboard_usage (
    requester            text NOT NULL,
    day                  text NOT NULL,               -- civil day in São Paulo, YYYY-MM-DD
    used                 integer NOT NULL,
    granted              integer NOT NULL,             -- by the last statement: how it tells its caller
    PRIMARY KEY (requester, day)
);

CREATE TABLE settings (
    key                  text PRIMARY KEY,
    value                text NOT NULL,
    updated_at           integer NOT NULL
);
