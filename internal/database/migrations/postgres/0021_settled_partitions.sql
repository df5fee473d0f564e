-- +goose Up
-- A partition that has been closed for a while is settled once: vacuumed, frozen, its indexes made anew. Then keeping it costs
-- nothing, and its rows are counted by an index alone before it is dropped.
ALTER TABLE webhook_partitions ADD COLUMN settled_at bigint;
ALTER TABLE webhook_partitions ADD COLUMN settling_until bigint;  -- the lease of the process that does it

-- Leases a closed partition to who settles it, and has what follows done by the owner, whoever settles: from now on autovacuum
-- comes when a thousand rows were changed, however many there are, and freezes; and indexes that are made anew are full. Nothing
-- here waits for a writer or makes one wait. It reports whether the partition is the caller's.
-- +goose StatementBegin
CREATE FUNCTION settle_webhook_partition(uid bigint, now bigint, until bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
    suffix text;
    one record;
BEGIN
    UPDATE webhook_partitions SET settling_until = until
    WHERE first_uid = uid AND closed_at IS NOT NULL AND settled_at IS NULL AND coalesce(settling_until, 0) < now
    RETURNING name INTO suffix;
    IF suffix IS NULL THEN
        RETURN false;
    END IF;
    FOR one IN SELECT t.oid::regclass AS name, array(SELECT indexrelid::regclass FROM pg_index WHERE indrelid = t.oid) AS indexes
        FROM unnest(ARRAY['webhook_events_', 'webhook_deliveries_', 'webhook_attempts_']) AS kind
        CROSS JOIN LATERAL to_regclass(kind || suffix) AS t(oid)
    LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
            autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000, autovacuum_freeze_min_age = 0,
            autovacuum_freeze_table_age = 0, vacuum_truncate = false)', one.name);
        EXECUTE (SELECT string_agg(format('ALTER INDEX %s SET (fillfactor = 100)', index), ';') FROM unnest(one.indexes) AS index);
    END LOOP;
    RETURN true;
END $$;
-- +goose StatementEnd

-- As in 0020, but it waits for a vacuum of the tables, which gives way, before anything waits for it; and it only detaches the
-- tables: deleting their files makes every commit wait that is written meanwhile, a third of a second for a million requests.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION drop_webhook_partition(uid bigint) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
    suffix text := (SELECT name FROM webhook_partitions WHERE first_uid = uid AND closed_at IS NOT NULL);
    events text := 'webhook_events_' || suffix;
    deliveries text := 'webhook_deliveries_' || suffix;
    attempts text := 'webhook_attempts_' || suffix;
    busy boolean;
BEGIN
    IF suffix IS NULL THEN
        RETURN '';
    END IF;
    EXECUTE format('LOCK TABLE %I, %I, %I IN SHARE UPDATE EXCLUSIVE MODE', events, deliveries, attempts);
    EXECUTE format($q$
        WITH owners AS (SELECT owner, start FROM list_counts WHERE list = 'deliveries'
            UNION SELECT owner, 0 FROM list_counts WHERE list = 'deliveries'
            UNION SELECT owner, 0 FROM list_changes WHERE list = 'deliveries' AND owner <> 'own'),
        blocks AS (SELECT owner, start, lead(start, 1, 9223372036854775807) OVER (PARTITION BY owner ORDER BY start) AS ends
            FROM owners)
        INSERT INTO list_changes
        SELECT 'deliveries', b.owner, s.status, '', b.start, c.n FROM blocks b
        CROSS JOIN unnest(ARRAY['delivered', 'dead', 'failed']) AS s(status)
        CROSS JOIN LATERAL (SELECT count(*) AS n FROM %I d WHERE d.destination = b.owner COLLATE "default" AND d.destination <> 'own'
            AND d.status = s.status AND d.created_at >= b.start AND d.created_at < b.ends) AS c WHERE c.n > 0$q$, deliveries);
    EXECUTE format($q$INSERT INTO status_counts SELECT 'delivery', status, -count(*) FROM %I WHERE status IN ('dead', 'failed')
        GROUP BY status$q$, deliveries);
    PERFORM set_config('lock_timeout', '200ms', true);
    LOCK TABLE ONLY webhook_events, ONLY webhook_deliveries, ONLY webhook_attempts IN ACCESS EXCLUSIVE MODE;
    EXECUTE format($q$SELECT EXISTS (SELECT FROM %1$I WHERE status = 'pending' AND worker IS NULL)
        OR EXISTS (SELECT FROM %1$I WHERE worker IS NOT NULL)$q$, deliveries) INTO busy;
    IF busy THEN
        RAISE object_in_use;
    END IF;
    EXECUTE format('ALTER TABLE webhook_events DETACH PARTITION %I', events);
    EXECUTE format('ALTER TABLE webhook_deliveries DETACH PARTITION %I', deliveries);
    EXECUTE format('ALTER TABLE webhook_attempts DETACH PARTITION %I', attempts);
    DELETE FROM webhook_partitions WHERE name = suffix;
    RETURN '';
EXCEPTION -- with all that was done
    WHEN object_in_use THEN RETURN 'deliveries are pending';
    WHEN lock_not_available THEN RETURN 'its tables are in use';
END $$;
-- +goose StatementEnd

-- Deletes one table of a partition that was dropped, and reports whether there was one.
-- +goose StatementBegin
CREATE FUNCTION delete_webhook_table() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
    gone name := (SELECT relname FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND NOT relispartition
            AND relname ~ '^webhook_(events|deliveries|attempts)_[0-9]+$'
            AND split_part(relname, '_', 3) NOT IN (SELECT name FROM webhook_partitions)
        ORDER BY relname LIMIT 1);
BEGIN
    IF gone IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE %I', gone);
    RETURN true;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION settle_webhook_partition(bigint, bigint, bigint), delete_webhook_table() FROM PUBLIC;

-- What deployments/postgres-roles.sql grants to a role that deletes, for the roles of before.
-- +goose StatementBegin
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT DISTINCT grantee FROM information_schema.role_table_grants WHERE table_schema = current_schema()
        AND table_name = 'webhook_deliveries' AND privilege_type = 'DELETE' AND grantee <> 'PUBLIC'
    LOOP
        EXECUTE format('GRANT UPDATE (settled_at, settling_until) ON webhook_partitions TO %I', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION settle_webhook_partition(bigint, bigint, bigint), delete_webhook_table() TO %I', name);
    END LOOP;
END $$;
-- +goose StatementEnd
