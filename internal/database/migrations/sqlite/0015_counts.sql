-- +goose Up
-- How many rows have the statuses that the gauges show, kept by triggers so that whoever writes keeps it.
CREATE TABLE status_counts (
    kind                 text NOT NULL,                -- request, delivery or receiver
    status               text NOT NULL,
    n                    integer NOT NULL,
    PRIMARY KEY (kind, status)
) WITHOUT ROWID;
INSERT INTO status_counts VALUES ('request', 'enqueued', 0), ('request', 'failed', 0),
    ('delivery', 'pending', 0), ('delivery', 'dead', 0), ('delivery', 'failed', 0), ('receiver', 'all', 0);

-- +goose StatementBegin
CREATE TRIGGER material_requests_added AFTER INSERT ON material_requests BEGIN
    UPDATE status_counts SET n = n + 1 WHERE kind = 'request' AND status = NEW.status;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER material_requests_changed AFTER UPDATE OF status ON material_requests WHEN OLD.status <> NEW.status BEGIN
    UPDATE status_counts SET n = n - 1 WHERE kind = 'request' AND status = OLD.status;
    UPDATE status_counts SET n = n + 1 WHERE kind = 'request' AND status = NEW.status;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER material_requests_removed AFTER DELETE ON material_requests BEGIN
    UPDATE status_counts SET n = n - 1 WHERE kind = 'request' AND status = OLD.status;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER webhook_deliveries_added AFTER INSERT ON webhook_deliveries BEGIN
    UPDATE status_counts SET n = n + 1 WHERE kind = 'delivery' AND status = NEW.status;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER webhook_deliveries_changed AFTER UPDATE OF status ON webhook_deliveries WHEN OLD.status <> NEW.status BEGIN
    UPDATE status_counts SET n = n - 1 WHERE kind = 'delivery' AND status = OLD.status;
    UPDATE status_counts SET n = n + 1 WHERE kind = 'delivery' AND status = NEW.status;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER webhook_deliveries_removed AFTER DELETE ON webhook_deliveries BEGIN
    UPDATE status_counts SET n = n - 1 WHERE kind = 'delivery' AND status = OLD.status;
END;
-- +goose StatementEnd

-- Suppliers with a receiver.
-- +goose StatementBegin
CREATE TRIGGER suppliers_added AFTER INSERT ON suppliers BEGIN
    UPDATE status_counts SET n = n + (NEW.active AND NEW.webhook_url <> '') WHERE kind = 'receiver';
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER suppliers_changed AFTER UPDATE OF active, webhook_url ON suppliers BEGIN
    UPDATE status_counts SET n = n + (NEW.active AND NEW.webhook_url <> '') - (OLD.active AND OLD.webhook_url <> '') WHERE kind = 'receiver';
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER suppliers_removed AFTER DELETE ON suppliers BEGIN
    UPDATE status_counts SET n = n - (OLD.active AND OLD.webhook_url <> '') WHERE kind = 'receiver';
END;
-- +goose StatementEnd

-- What there is already.
UPDATE status_counts SET n = (SELECT count(*) FROM webhook_deliveries d WHERE d.status = status_counts.status) WHERE kind = 'delivery';
UPDATE status_counts SET n = (SELECT count(*) FROM material_requests r WHERE r.status = status_counts.status) WHERE kind = 'request';
UPDATE status_counts SET n = (SELECT count(*) FROM suppliers WHERE active AND webhook_url <> '') WHERE kind = 'receiver';

-- The receivers that an operator has to look at: few rows, and no write to a healthy one changes it.
CREATE INDEX webhook_receivers_ill ON webhook_receivers (supplier_id) WHERE failing_since IS NOT NULL OR paused_by <> '';
