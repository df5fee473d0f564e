-- Spreads the tables of the pipeline over the servers of a Citus cluster: whatever belongs to one supplier is on one of them.
-- Run it once, as the schema's owner, on the coordinator, after `api migrate` of this very version and before anything is
-- stored; the processes are started after it. The cluster is made as Citus' manual says: CREATE EXTENSION citus in the database
-- of this name on every server, citus_set_coordinator_host and citus_add_node on the coordinator.
--   psql "$OWNER_URL" -v ON_ERROR_STOP=1 -1 -f deployments/citus.sql
-- max_prepared_transactions of every server must be at least the coordinator's max_connections. scaling.md says what
-- is different then.

-- Citus drops the tables of a partition on all servers at once; it does not detach them first.
CREATE OR REPLACE FUNCTION drop_webhook_partition(uid bigint) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '2s' AS $$
DECLARE
  suffix text := (SELECT name FROM webhook_partitions WHERE first_uid = uid AND closed_at IS NOT NULL);
  deliveries text := 'webhook_deliveries_' || suffix;
  busy boolean;
BEGIN
  IF suffix IS NULL THEN
    RETURN '';
  END IF;
  EXECUTE format('LOCK TABLE %I IN SHARE MODE', deliveries);
  EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I WHERE status = %L)', deliveries, 'pending') INTO busy;
  IF busy THEN
    RETURN 'deliveries are pending';
  END IF;
  EXECUTE format('DROP TABLE %I, %I, %I', 'webhook_events_' || suffix, deliveries, 'webhook_attempts_' || suffix);
  DELETE FROM webhook_partitions WHERE name = suffix;
  RETURN '';
EXCEPTION
  WHEN lock_not_available THEN RETURN 'its tables are in use';
END $$;
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION drop_webhook_partition(bigint) SET search_path = %I, pg_temp', current_schema());
END $$;

-- A key must hold the supplier. Unique values stay unique: uids are given out once, and webhook-ids are random.
DROP INDEX material_requests_uid;
CREATE INDEX material_requests_uid ON material_requests (uid) WHERE uid > 0;
ALTER TABLE material_rounds DROP CONSTRAINT material_rounds_pkey, ADD PRIMARY KEY (uid, number, supplier_id);
ALTER TABLE webhook_events DROP CONSTRAINT webhook_events_pkey, ADD PRIMARY KEY (uid, round, supplier_id);
ALTER TABLE webhook_deliveries DROP CONSTRAINT webhook_deliveries_pkey, ADD PRIMARY KEY (id, supplier_id);
ALTER TABLE webhook_attempts DROP CONSTRAINT webhook_attempts_pkey, ADD PRIMARY KEY (delivery_id, number, supplier_id);

-- All tables that are not named here stay on the coordinator: suppliers, their keys and sessions, workers and their shards, the
-- tracker, figures.
SELECT create_distributed_table('material_requests', 'supplier_id'); -- citus.shard_count shards, 32 unless it is set
SELECT create_distributed_table('material_rounds', 'supplier_id', colocate_with => 'material_requests');
SELECT create_distributed_table('webhook_events', 'supplier_id', colocate_with => 'material_requests');
SELECT create_distributed_table('webhook_deliveries', 'supplier_id', colocate_with => 'material_requests');
SELECT create_distributed_table('webhook_attempts', 'supplier_id', colocate_with => 'material_requests');
SELECT create_distributed_table('webhook_receivers', 'supplier_id', colocate_with => 'material_requests');
SELECT create_distributed_table('products', 'supplier_id', colocate_with => 'material_requests');
