-- +goose Up
-- How many rows have the statuses that the gauges show, kept by triggers so that whoever writes keeps it. A statement adds a row
-- with what it changed, so that no two transactions wait for each other; the readers put the rows together again.
SET LOCAL statement_timeout = 0;

CREATE TABLE status_counts (
    kind                 text NOT NULL,                -- request, delivery or receiver
    status               text NOT NULL,
    n                    bigint NOT NULL               -- more of them, or fewer; the sum is how many there are
);
-- Rows may be deleted while a publication is for all tables.
ALTER TABLE status_counts REPLICA IDENTITY FULL;

-- +goose StatementBegin
CREATE FUNCTION count_added() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO status_counts SELECT TG_ARGV[0], status, count(*) FROM added
        WHERE status IN ('enqueued', 'failed', 'pending', 'dead') GROUP BY status;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION count_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO status_counts SELECT TG_ARGV[0], status, sum(n)
        FROM (SELECT status, 1 AS n FROM added UNION ALL SELECT status, -1 FROM removed) AS changed
        WHERE status IN ('enqueued', 'failed', 'pending', 'dead') GROUP BY status HAVING sum(n) <> 0;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION count_removed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO status_counts SELECT TG_ARGV[0], status, -count(*) FROM removed
        WHERE status IN ('enqueued', 'failed', 'pending', 'dead') GROUP BY status;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER count_added AFTER INSERT ON material_requests REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_added('request');
CREATE TRIGGER count_changed AFTER UPDATE ON material_requests REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_changed('request');
CREATE TRIGGER count_removed AFTER DELETE ON material_requests REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION count_removed('request');
CREATE TRIGGER count_added AFTER INSERT ON webhook_deliveries REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_added('delivery');
CREATE TRIGGER count_changed AFTER UPDATE ON webhook_deliveries REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_changed('delivery');
CREATE TRIGGER count_removed AFTER DELETE ON webhook_deliveries REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION count_removed('delivery');

-- Suppliers with a receiver. Few rows change here, one at a time.
-- +goose StatementBegin
CREATE FUNCTION count_receivers() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    more bigint := 0;
BEGIN
    IF TG_OP <> 'DELETE' AND NEW.active AND NEW.webhook_url <> '' THEN more := 1; END IF;
    IF TG_OP <> 'INSERT' AND OLD.active AND OLD.webhook_url <> '' THEN more := more - 1; END IF;
    IF more <> 0 THEN
        INSERT INTO status_counts VALUES ('receiver', 'all', more);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER count_receivers AFTER INSERT OR DELETE OR UPDATE OF active, webhook_url ON suppliers
    FOR EACH ROW EXECUTE FUNCTION count_receivers();

-- What there is already, by the indexes of just that: an enqueued request is queued, waits to be tried again, or its own delivery
-- is pending.
INSERT INTO status_counts SELECT 'delivery', status, count(*) FROM webhook_deliveries WHERE status IN ('dead', 'failed') GROUP BY status;
INSERT INTO status_counts SELECT 'delivery', 'pending', count(*) FROM webhook_deliveries WHERE status = 'pending' AND worker IS NULL;
INSERT INTO status_counts SELECT 'delivery', 'pending', count(*) FROM webhook_deliveries WHERE worker IS NOT NULL AND status = 'pending';
INSERT INTO status_counts SELECT 'request', 'failed', count(*) FROM material_requests WHERE failure <> '' AND status = 'failed';
INSERT INTO status_counts SELECT 'request', 'enqueued', count(*) FROM (
    SELECT supplier_id, id FROM material_requests WHERE ticket IS NOT NULL AND status = 'enqueued'
    UNION
    SELECT supplier_id, id FROM material_requests WHERE retry_at IS NOT NULL AND status = 'enqueued'
    UNION
    SELECT r.supplier_id, r.id FROM webhook_deliveries d JOIN material_requests r ON r.supplier_id = d.supplier_id AND r.id = d.request_id
        WHERE d.status = 'pending' AND d.worker IS NULL AND d.destination = 'own' AND r.status = 'enqueued'
    UNION
    SELECT r.supplier_id, r.id FROM webhook_deliveries d JOIN material_requests r ON r.supplier_id = d.supplier_id AND r.id = d.request_id
        WHERE d.worker IS NOT NULL AND d.destination = 'own' AND r.status = 'enqueued') AS waiting;
INSERT INTO status_counts SELECT 'receiver', 'all', count(*) FROM suppliers WHERE active AND webhook_url <> '';

-- The receivers that an operator has to look at: few rows, and no write to a healthy one changes it.
CREATE INDEX webhook_receivers_ill ON webhook_receivers (supplier_id) WHERE failing_since IS NOT NULL OR paused_by <> '';
