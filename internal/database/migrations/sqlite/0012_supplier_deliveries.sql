-- +goose Up
-- What a supplier lists, counts and recovers. The first condition keeps deliveries to the own endpoint out, which are most
-- of the writes; queries repeat it as it is written here. Delivered ones are counted as all without the others.
CREATE INDEX webhook_deliveries_newest ON webhook_deliveries (destination, created_at, id) WHERE destination <> 'own';
CREATE INDEX webhook_deliveries_open ON webhook_deliveries (destination, status, created_at, id) WHERE destination <> 'own' AND status <> 'delivered';
