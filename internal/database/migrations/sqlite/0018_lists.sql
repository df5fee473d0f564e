-- +goose Up
-- How many rows the lists have, in blocks of at most some thousand: a total is a sum of a few numbers, and a page however deep
-- skips the rows of one block. Triggers note every change; the api adds them to the blocks (database/counts.go).
-- List, owner and status: requests by supplier, deliveries by receiver, orders. An empty status: all of them.
CREATE TABLE list_counts (
    list                 text NOT NULL,
    owner                text NOT NULL,
    status               text NOT NULL,
    start                integer NOT NULL,            -- the block's rows are at this time or later, and before the next block's
    n                    integer NOT NULL,
    PRIMARY KEY (list, owner, status, start)
) WITHOUT ROWID;

CREATE TABLE list_changes (
    list                 text NOT NULL,
    owner                text NOT NULL,
    was                  text NOT NULL,               -- the rows' status before; empty: they are new
    became               text NOT NULL,               -- and now; empty: they are gone
    at                   integer NOT NULL,            -- the rows' time without its last 18 bits, a quarter of a second
    n                    integer NOT NULL,            -- how many rows
    PRIMARY KEY (owner, list, was, became, at)
) WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER material_requests_inserted AFTER INSERT ON material_requests BEGIN
    INSERT INTO list_changes VALUES ('requests', NEW.supplier_id, '', NEW.status, NEW.created_at & -262144, 1)
    ON CONFLICT (owner, list, was, became, at) DO UPDATE SET n = n + 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER material_requests_updated AFTER UPDATE OF status ON material_requests WHEN OLD.status <> NEW.status BEGIN
    INSERT INTO list_changes VALUES ('requests', NEW.supplier_id, OLD.status, NEW.status, NEW.created_at & -262144, 1)
    ON CONFLICT (owner, list, was, became, at) DO UPDATE SET n = n + 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER material_requests_ordered AFTER UPDATE OF selected_at ON material_requests WHEN OLD.selected_at IS NULL AND NEW.selected_at IS NOT NULL BEGIN
    INSERT INTO list_changes VALUES ('orders', '', '', 'selected', NEW.selected_at & -262144, 1)
    ON CONFLICT (owner, list, was, became, at) DO UPDATE SET n = n + 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER material_requests_deleted AFTER DELETE ON material_requests BEGIN
    INSERT INTO list_changes VALUES ('requests', OLD.supplier_id, OLD.status, '', OLD.created_at & -262144, 1)
    ON CONFLICT (owner, list, was, became, at) DO UPDATE SET n = n + 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER material_requests_unordered AFTER DELETE ON material_requests WHEN OLD.selected_at IS NOT NULL BEGIN
    INSERT INTO list_changes VALUES ('orders', '', 'selected', '', OLD.selected_at & -262144, 1)
    ON CONFLICT (owner, list, was, became, at) DO UPDATE SET n = n + 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER webhook_deliveries_inserted AFTER INSERT ON webhook_deliveries WHEN NEW.destination <> 'own' BEGIN
    INSERT INTO list_changes VALUES ('deliveries', NEW.destination, '', NEW.status, NEW.created_at & -262144, 1)
    ON CONFLICT (owner, list, was, became, at) DO UPDATE SET n = n + 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER webhook_deliveries_updated AFTER UPDATE OF status ON webhook_deliveries WHEN OLD.status <> NEW.status AND NEW.destination <> 'own' BEGIN
    INSERT INTO list_changes VALUES ('deliveries', NEW.destination, OLD.status, NEW.status, NEW.created_at & -262144, 1)
    ON CONFLICT (owner, list, was, became, at) DO UPDATE SET n = n + 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER webhook_deliveries_deleted AFTER DELETE ON webhook_deliveries WHEN OLD.destination <> 'own' BEGIN
    INSERT INTO list_changes VALUES ('deliveries', OLD.destination, OLD.status, '', OLD.created_at & -262144, 1)
    ON CONFLICT (owner, list, was, became, at) DO UPDATE SET n = n + 1;
END;
-- +goose StatementEnd

INSERT INTO list_counts (list, owner, status, start, n)
SELECT list, owner, status, 0, n FROM (
    SELECT 'requests' AS list, supplier_id AS owner, status, count(*) AS n FROM material_requests GROUP BY supplier_id, status
    UNION ALL SELECT 'requests', supplier_id, '', count(*) FROM material_requests GROUP BY supplier_id
    UNION ALL SELECT 'orders', '', '', count(*) FROM material_requests WHERE selected_at IS NOT NULL
    UNION ALL SELECT 'orders', '', 'selected', count(*) FROM material_requests WHERE selected_at IS NOT NULL
    UNION ALL SELECT 'deliveries', destination, status, count(*) FROM webhook_deliveries WHERE destination <> 'own' GROUP BY destination, status
    UNION ALL SELECT 'deliveries', destination, '', count(*) FROM webhook_deliveries WHERE destination <> 'own' GROUP BY destination)
WHERE n > 0;

-- A list is read by status, and one of all statuses is merged from them. The conditions keep look-ups by other keys off these
-- indexes and deliveries to the own endpoint out.
CREATE INDEX material_requests_listed ON material_requests (supplier_id, status, created_at, id) WHERE created_at > 0;
CREATE INDEX webhook_deliveries_listed ON webhook_deliveries (destination, status, created_at, id) WHERE destination <> 'own';
DROP INDEX material_requests_newest;
DROP INDEX webhook_deliveries_newest;
DROP INDEX webhook_deliveries_open;
