-- +goose NO TRANSACTION
-- +goose Up
-- The version before serves meanwhile: nothing here holds a lock for longer than a moment, and each statement may be repeated.
-- How many rows the lists have, in blocks of at most some thousand: a total is a sum of a few numbers, and a page however deep
-- skips the rows of one block. Triggers note every change, whoever makes it; nobody waits for a counter, as changes are only
-- inserted. The apis add them to the blocks (database/counts.go).
-- List, owner and status: requests by supplier, deliveries by receiver, orders. An empty status stands for all of them.
CREATE TABLE IF NOT EXISTS list_counts (
    list                 text COLLATE "C" NOT NULL,
    owner                text COLLATE "C" NOT NULL,
    status               text COLLATE "C" NOT NULL,
    start                bigint NOT NULL,             -- the block's rows are at this time or later, and before the next block's
    n                    bigint NOT NULL,
    PRIMARY KEY (list, owner, status, start)
) WITH (fillfactor = 60, autovacuum_vacuum_threshold = 1000);

CREATE TABLE IF NOT EXISTS list_changes (
    list                 text COLLATE "C" NOT NULL,
    owner                text COLLATE "C" NOT NULL,
    status               text COLLATE "C" NOT NULL,
    at                   bigint NOT NULL,             -- the rows' time without its last 18 bits, a quarter of a second
    n                    bigint NOT NULL,             -- more or fewer of them have the status
    total                bigint NOT NULL              -- more or fewer of them are there
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_insert_threshold = -1);
CREATE INDEX IF NOT EXISTS list_changes_owner ON list_changes (owner, list, status);

-- The triggers of status_counts note for the lists, too: the rows that a statement changed are gathered once.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_added() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_ARGV[0] = 'request' THEN
        INSERT INTO list_changes (list, owner, status, at, n, total)
        SELECT 'requests', supplier_id, status, created_at & -262144, count(*), count(*) FROM added GROUP BY 2, 3, 4;
    ELSE
        INSERT INTO list_changes (list, owner, status, at, n, total)
        SELECT 'deliveries', destination, status, created_at & -262144, count(*), count(*) FROM added WHERE destination <> 'own' GROUP BY 2, 3, 4;
    END IF;
    INSERT INTO status_counts SELECT TG_ARGV[0], status, count(*) FROM added
        WHERE status IN ('enqueued', 'failed', 'pending', 'dead') GROUP BY status;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_changed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_ARGV[0] = 'request' THEN
        INSERT INTO list_changes (list, owner, status, at, n, total)
        SELECT 'requests', supplier_id, status, created_at & -262144, sum(n), 0 FROM (
            SELECT supplier_id, status, created_at, 1 AS n FROM added UNION ALL SELECT supplier_id, status, created_at, -1 FROM removed) AS moved
        GROUP BY 2, 3, 4 HAVING sum(n) <> 0;
    ELSE
        INSERT INTO list_changes (list, owner, status, at, n, total)
        SELECT 'deliveries', destination, status, created_at & -262144, sum(n), 0 FROM (
            SELECT destination, status, created_at, 1 AS n FROM added WHERE destination <> 'own'
            UNION ALL SELECT destination, status, created_at, -1 FROM removed WHERE destination <> 'own') AS moved
        GROUP BY 2, 3, 4 HAVING sum(n) <> 0;
    END IF;
    INSERT INTO status_counts SELECT TG_ARGV[0], status, sum(n)
        FROM (SELECT status, 1 AS n FROM added UNION ALL SELECT status, -1 FROM removed) AS changed
        WHERE status IN ('enqueued', 'failed', 'pending', 'dead') GROUP BY status HAVING sum(n) <> 0;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_removed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_ARGV[0] = 'request' THEN
        INSERT INTO list_changes (list, owner, status, at, n, total)
        SELECT 'requests', supplier_id, status, created_at & -262144, -count(*), -count(*) FROM removed GROUP BY 2, 3, 4
        UNION ALL SELECT 'orders', '', '', selected_at & -262144, 0, -count(*) FROM removed WHERE selected_at IS NOT NULL GROUP BY 4;
    ELSE
        INSERT INTO list_changes (list, owner, status, at, n, total)
        SELECT 'deliveries', destination, status, created_at & -262144, -count(*), -count(*) FROM removed WHERE destination <> 'own' GROUP BY 2, 3, 4;
    END IF;
    INSERT INTO status_counts SELECT TG_ARGV[0], status, -count(*) FROM removed
        WHERE status IN ('enqueued', 'failed', 'pending', 'dead') GROUP BY status;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- A selection is a statement of its own, so that no other one looks for it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_ordered() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF OLD.selected_at IS NOT NULL THEN
        INSERT INTO list_changes (list, owner, status, at, n, total) VALUES ('orders', '', '', OLD.selected_at & -262144, 0, -1);
    END IF;
    IF NEW.selected_at IS NOT NULL THEN
        INSERT INTO list_changes (list, owner, status, at, n, total) VALUES ('orders', '', '', NEW.selected_at & -262144, 0, 1);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- They run with their owner's rights: a writer's own table of the same name is not taken for one of these.
-- +goose StatementBegin
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['count_added', 'count_changed', 'count_removed', 'count_ordered', 'count_receivers'] LOOP
        EXECUTE format('ALTER FUNCTION %I() SET search_path = %I, pg_temp', name, current_schema());
    END LOOP;
END $$;
-- +goose StatementEnd

-- Whoever wrote before that has ended then.
CREATE OR REPLACE TRIGGER count_ordered AFTER UPDATE OF selected_at ON material_requests
    FOR EACH ROW EXECUTE FUNCTION count_ordered();
-- +goose StatementBegin
DO $$ BEGIN LOCK TABLE material_requests IN SHARE MODE; END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$ BEGIN LOCK TABLE webhook_deliveries IN SHARE MODE; END $$;
-- +goose StatementEnd

-- What was there before: all rows without what the triggers have noted by the same moment. Nobody adds changes to blocks yet.
INSERT INTO list_counts (list, owner, status, start, n)
SELECT list, owner, status, 0, sum(n) FROM (
    SELECT 'requests' AS list, supplier_id AS owner, status, count(*) AS n FROM material_requests GROUP BY supplier_id, status
    UNION ALL SELECT 'requests', supplier_id, '', count(*) FROM material_requests GROUP BY supplier_id
    UNION ALL SELECT 'orders', '', '', count(*) FROM material_requests WHERE selected_at IS NOT NULL
    UNION ALL SELECT 'deliveries', destination, status, count(*) FROM webhook_deliveries WHERE destination <> 'own' GROUP BY destination, status
    UNION ALL SELECT 'deliveries', destination, '', count(*) FROM webhook_deliveries WHERE destination <> 'own' GROUP BY destination
    UNION ALL SELECT list, owner, status, -n FROM list_changes WHERE status <> ''
    UNION ALL SELECT list, owner, '', -total FROM list_changes) AS counted
GROUP BY list, owner, status HAVING sum(n) <> 0
ON CONFLICT (list, owner, status, start) DO UPDATE SET n = excluded.n;

-- A list is read by status, and one of all statuses is merged from them. The conditions keep look-ups by other keys off these
-- indexes and deliveries to the own endpoint out.
DROP INDEX CONCURRENTLY IF EXISTS material_requests_listed;
CREATE INDEX CONCURRENTLY material_requests_listed ON material_requests (supplier_id, status, created_at, id) WHERE created_at > 0;
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_listed;
CREATE INDEX CONCURRENTLY webhook_deliveries_listed ON webhook_deliveries (destination, status, created_at, id) WHERE destination <> 'own';
DROP INDEX CONCURRENTLY IF EXISTS material_requests_newest;
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_newest;
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_open;
