-- +goose NO TRANSACTION
-- +goose Up
-- The version before serves meanwhile: nothing here holds a lock for longer than a moment, and each statement may be repeated.
-- How many rows the lists have, in blocks of at most some thousand: a total is a sum of a few numbers, and a page however deep
-- skips the rows of one block. Every change is noted, by the writer or by a trigger, and no writer waits for a counter, as changes are only inserted.
-- The apis add them to the blocks (database/counts.go).
-- List, owner and status: requests by supplier, deliveries by receiver, orders. An empty status: all of them.
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
    was                  text COLLATE "C" NOT NULL,   -- the rows' status before; empty: they are new
    became               text COLLATE "C" NOT NULL,   -- and now; empty: they are gone
    at                   bigint NOT NULL,             -- the rows' time without its last 18 bits, a quarter of a second
    n                    bigint NOT NULL,             -- how many rows
    counted              boolean NOT NULL DEFAULT true -- status_counts has them; what the hot statements note is added to both
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_insert_threshold = -1);
ALTER TABLE list_changes REPLICA IDENTITY FULL; -- rows may be deleted while a publication is for all tables

-- The hot statements note what they change themselves, for status_counts too, and flip "noted" of those rows, as they do with
-- "counted"; that one does not do for both, as the version before flips it and notes nothing. Whatever else writes is noted by
-- triggers.
ALTER TABLE material_requests ADD COLUMN IF NOT EXISTS noted boolean NOT NULL DEFAULT false;
ALTER TABLE webhook_deliveries ADD COLUMN IF NOT EXISTS noted boolean NOT NULL DEFAULT false;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_request() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO list_changes VALUES ('requests', NEW.supplier_id, CASE TG_OP WHEN 'UPDATE' THEN OLD.status ELSE '' END, NEW.status,
        NEW.created_at & -262144, 1);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_delivery() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO list_changes VALUES ('deliveries', NEW.destination, CASE TG_OP WHEN 'UPDATE' THEN OLD.status ELSE '' END, NEW.status,
        NEW.created_at & -262144, 1);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- No other statement names the selection.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_order() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.selected_at IS NOT NULL THEN
        INSERT INTO list_changes VALUES ('orders', '', 'selected', '', OLD.selected_at & -262144, 1);
    END IF;
    IF NEW.selected_at IS NOT NULL THEN
        INSERT INTO list_changes VALUES ('orders', '', '', 'selected', NEW.selected_at & -262144, 1);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Rows are deleted many at once.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_removed_requests() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO list_changes
    SELECT 'requests', supplier_id, status, '', created_at & -262144, count(*) FROM removed GROUP BY 2, 3, 5
    UNION ALL SELECT 'orders', '', 'selected', '', selected_at & -262144, count(*) FROM removed WHERE selected_at IS NOT NULL GROUP BY 5;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_removed_deliveries() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO list_changes
    SELECT 'deliveries', destination, status, '', created_at & -262144, count(*) FROM removed WHERE destination <> 'own' GROUP BY 2, 3, 5;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE OR REPLACE TRIGGER note_added AFTER INSERT ON material_requests
    FOR EACH ROW WHEN (NOT NEW.noted) EXECUTE FUNCTION note_request();
CREATE OR REPLACE TRIGGER note_changed AFTER UPDATE ON material_requests
    FOR EACH ROW WHEN (OLD.status <> NEW.status AND OLD.noted = NEW.noted) EXECUTE FUNCTION note_request();
CREATE OR REPLACE TRIGGER note_ordered AFTER UPDATE OF selected_at ON material_requests
    FOR EACH ROW EXECUTE FUNCTION note_order();
CREATE OR REPLACE TRIGGER note_ordered_at_once AFTER INSERT ON material_requests
    FOR EACH ROW WHEN (NEW.selected_at IS NOT NULL) EXECUTE FUNCTION note_order();
CREATE OR REPLACE TRIGGER note_removed AFTER DELETE ON material_requests REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION note_removed_requests();
CREATE OR REPLACE TRIGGER note_added AFTER INSERT ON webhook_deliveries
    FOR EACH ROW WHEN (NOT NEW.noted AND NEW.destination <> 'own') EXECUTE FUNCTION note_delivery();
CREATE OR REPLACE TRIGGER note_changed AFTER UPDATE ON webhook_deliveries
    FOR EACH ROW WHEN (OLD.status <> NEW.status AND OLD.noted = NEW.noted AND NEW.destination <> 'own') EXECUTE FUNCTION note_delivery();
CREATE OR REPLACE TRIGGER note_removed AFTER DELETE ON webhook_deliveries REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION note_removed_deliveries();

-- What deployments/postgres-roles.sql grants, for the roles of before: the hot statements note with the rights of their process.
-- +goose StatementBegin
DO $$
DECLARE
    writer record;
BEGIN
    FOR writer IN SELECT DISTINCT grantee, table_name FROM information_schema.role_table_grants WHERE table_schema = current_schema()
        AND table_name IN ('material_requests', 'webhook_deliveries') AND privilege_type = 'INSERT' AND grantee <> 'PUBLIC'
    LOOP
        EXECUTE format('GRANT SELECT, INSERT ON list_changes TO %I', writer.grantee);
        IF writer.table_name = 'material_requests' THEN
            EXECUTE format('GRANT DELETE ON list_changes TO %I', writer.grantee);
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON list_counts TO %I', writer.grantee);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

-- What was there before: all rows without what the triggers have noted by the same moment. Each of these waited, when it was
-- made, for the end of what wrote without it. No process adds changes to blocks yet.
INSERT INTO list_counts (list, owner, status, start, n)
SELECT list, owner, status, 0, sum(n) FROM (
    SELECT 'requests' AS list, supplier_id AS owner, status, count(*) AS n FROM material_requests GROUP BY supplier_id, status
    UNION ALL SELECT 'requests', supplier_id, '', count(*) FROM material_requests GROUP BY supplier_id
    UNION ALL SELECT 'orders', '', '', count(*) FROM material_requests WHERE selected_at IS NOT NULL
    UNION ALL SELECT 'deliveries', destination, status, count(*) FROM webhook_deliveries WHERE destination <> 'own' GROUP BY destination, status
    UNION ALL SELECT 'deliveries', destination, '', count(*) FROM webhook_deliveries WHERE destination <> 'own' GROUP BY destination
    UNION ALL SELECT 'orders', '', 'selected', count(*) FROM material_requests WHERE selected_at IS NOT NULL
    UNION ALL SELECT list, owner, became, -n FROM list_changes WHERE became <> ''
    UNION ALL SELECT list, owner, was, n FROM list_changes WHERE was <> ''
    UNION ALL SELECT list, owner, '', -n FROM list_changes WHERE was = ''
    UNION ALL SELECT list, owner, '', n FROM list_changes WHERE became = '') AS counted
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
