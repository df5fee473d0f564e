-- +goose NO TRANSACTION
-- +goose Up
-- Events, deliveries and attempts in partitions by uid, which retention drops whole. The first uid of day n, counted from 1970, is
-- n << 36: borders are known for all time, so partitions are made ahead, and the sequence is moved to a border when its day comes.
-- Where nothing moves it, uids go on in the partition that they are in, which has room for 2^36 a day.
-- The version before serves meanwhile: nothing here holds a lock for longer than a moment, and each statement may be repeated.
CREATE TABLE IF NOT EXISTS webhook_partitions (
    name                 text PRIMARY KEY,             -- suffix of the three tables: the day that it begins with; 0: all before
    first_uid            bigint NOT NULL,
    end_uid              bigint NOT NULL,
    opened_at            bigint,                       -- when uids began to be of it; null: made ahead
    closed_at            bigint,                       -- when they ceased to be
    kept                 text NOT NULL DEFAULT ''      -- why retention did not drop it although all of it is old
);
INSERT INTO webhook_partitions VALUES ('0', -9223372036854775808, (extract(epoch FROM clock_timestamp())::bigint / 86400 + 1) << 36, 0)
    ON CONFLICT DO NOTHING;

-- What is before the webhook-ids of a day's uids, as internal/round makes them: ten digits to base 62 of the day and 40 bits of time.
CREATE OR REPLACE FUNCTION webhook_border(uid bigint) RETURNS text LANGUAGE sql IMMUTABLE STRICT SET search_path FROM CURRENT AS $$
    SELECT 'msg_' || string_agg(substr('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz',
        1 + ((uid >> 36 << 40) / (62::numeric ^ (9 - i))::bigint % 62)::int, 1), '' ORDER BY i)
    FROM generate_series(0, 9) AS i
$$;

-- Makes a table the first partition of one of its name, to which its indexes, triggers and rights pass.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION partition_table(name text, key text, before text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    was oid := name::regclass;
    first text := name || '_0';
    owner text;
    made text[] := '{}';
    one record;
BEGIN
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', name);
    FOR one IN SELECT tgname, pg_get_triggerdef(oid) AS def FROM pg_trigger WHERE tgrelid = was AND NOT tgisinternal LOOP
        made := made || one.def;
        EXECUTE format('DROP TRIGGER %I ON %I', one.tgname, name);
    END LOOP;
    FOR one IN SELECT c.relname, i.indisprimary, pg_get_indexdef(c.oid) AS def, pg_get_constraintdef(k.oid) AS pkey,
            array_to_string(c.reloptions, ', ') AS options
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid LEFT JOIN pg_constraint k ON k.conindid = c.oid AND k.contype = 'p'
        WHERE i.indrelid = was ORDER BY NOT i.indisprimary
    LOOP
        made := made || CASE WHEN one.indisprimary
            THEN format('ALTER TABLE %I ADD %s%s', name, one.pkey, ' WITH (' || one.options || ')') ELSE one.def END;
        EXECUTE format('ALTER INDEX %I RENAME TO %I', one.relname, first || substr(one.relname, length(name) + 1));
    END LOOP;
    EXECUTE format('ALTER TABLE %I RENAME TO %I', name, first);
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING STORAGE) PARTITION BY RANGE (%I)', name, first, key);
    SELECT pg_get_userbyid(relowner) INTO owner FROM pg_class WHERE oid = was;
    EXECUTE format('ALTER TABLE %I OWNER TO %I', name, owner);
    FOR one IN SELECT def FROM unnest(made) AS def ORDER BY def LIKE 'CREATE TRIGGER%', def LIKE 'CREATE INDEX%' LOOP
        EXECUTE one.def;
    END LOOP;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)', name, first, before);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT before_partitions', first);
    FOR one IN SELECT acl.privilege_type || coalesce(' (' || quote_ident(attname) || ')', '') AS privilege,
            CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END AS grantee
        FROM (SELECT NULL::name AS attname, relacl AS list FROM pg_class WHERE oid = was
            UNION ALL SELECT attname, attacl FROM pg_attribute WHERE attrelid = was AND NOT attisdropped) AS lists
        CROSS JOIN LATERAL aclexplode(list) AS acl
    LOOP
        EXECUTE format('GRANT %s ON %I TO %s', one.privilege, name, one.grantee);
    END LOOP;
END $$;
-- +goose StatementEnd

-- A check that was validated, which nobody waits for, spares the switch its look at all rows. A long reader would make everybody
-- wait who comes after the switch: it is given up after two seconds, which is longer than an autovacuum goes on, and tried again.
-- +goose StatementBegin
DO $$
DECLARE
    border bigint := (SELECT end_uid FROM webhook_partitions WHERE name = '0');
    one text[];
    step int;
BEGIN
    FOREACH one SLICE 1 IN ARRAY ARRAY[['webhook_events', 'uid', border::text], ['webhook_deliveries', 'id', webhook_border(border)],
        ['webhook_attempts', 'delivery_id', webhook_border(border)]]
    LOOP
        CONTINUE WHEN (SELECT relkind = 'p' FROM pg_class WHERE oid = one[1]::regclass);
        FOR step IN 1..2 LOOP
            FOR try IN 1..300 LOOP
                BEGIN
                    PERFORM set_config('lock_timeout', '2s', true);
                    IF step = 2 THEN
                        PERFORM partition_table(one[1], one[2], one[3]);
                    ELSIF NOT EXISTS (SELECT FROM pg_constraint
                        WHERE conrelid = one[1]::regclass AND conname = 'before_partitions')
                    THEN
                        EXECUTE format('ALTER TABLE %I ADD CONSTRAINT before_partitions CHECK (%I < %L) NOT VALID', one[1], one[2], one[3]);
                    END IF;
                    EXIT;
                EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
                    IF try = 300 THEN RAISE; END IF;
                END;
                PERFORM pg_sleep(1);
            END LOOP;
            COMMIT;
            IF step = 1 THEN
                EXECUTE format('ALTER TABLE %I VALIDATE CONSTRAINT before_partitions', one[1]);
                COMMIT;
            END IF;
        END LOOP;
    END LOOP;
END $$;
-- +goose StatementEnd
DROP FUNCTION partition_table(text, text, text);

-- Makes the next partition when there is none ahead, or moves the sequence into it when its day has come, never both: uids of it
-- are given out only after it was committed. It reports whether there was something to do. Attaching waits for no writer and makes
-- none wait.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION advance_webhook_partitions(now bigint, days bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
    today bigint := now / 86400000000;
    newest webhook_partitions;
    ahead webhook_partitions;
    parent text;
    ends text[];
BEGIN
    SELECT * INTO newest FROM webhook_partitions ORDER BY first_uid DESC LIMIT 1;
    IF newest.opened_at IS NULL THEN
        IF newest.first_uid >> 36 > today THEN
            RETURN false;
        END IF;
        PERFORM setval('request_numbers', newest.first_uid) FROM request_numbers WHERE last_value < newest.first_uid;
        UPDATE webhook_partitions SET closed_at = now WHERE closed_at IS NULL AND first_uid < newest.first_uid;
        UPDATE webhook_partitions SET opened_at = now WHERE first_uid = newest.first_uid;
        RETURN true;
    END IF;
    ahead.first_uid := greatest(newest.end_uid, (today + 1) << 36);
    ahead.end_uid := ahead.first_uid + (greatest(days, 1) << 36);
    ahead.name := to_char(to_timestamp((ahead.first_uid >> 36) * 86400) AT TIME ZONE 'UTC', 'YYYYMMDD');
    FOREACH parent IN ARRAY ARRAY['webhook_events', 'webhook_deliveries', 'webhook_attempts'] LOOP
        ends := CASE parent WHEN 'webhook_events' THEN ARRAY[ahead.first_uid::text, ahead.end_uid::text]
            ELSE ARRAY[webhook_border(ahead.first_uid), webhook_border(ahead.end_uid)] END;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING STORAGE)', parent || '_' || ahead.name, parent);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, parent || '_' || ahead.name,
            ends[1], ends[2]);
    END LOOP;
    INSERT INTO webhook_partitions VALUES (ahead.name, ahead.first_uid, ahead.end_uid);
    RETURN true;
END $$;
-- +goose StatementEnd

-- Drops a partition, and takes its rows off the counts as deleting them would, each block of a list at once. It returns why it did
-- not; nothing: the partition is gone. No writer waits while its rows are counted, and then for a moment: what could change them, a
-- redelivery, is kept out by the caller's lock.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION drop_webhook_partition(uid bigint) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '200ms' AS $$
DECLARE
    suffix text := (SELECT name FROM webhook_partitions WHERE first_uid = uid AND closed_at IS NOT NULL);
    deliveries text := 'webhook_deliveries_' || suffix;
    busy boolean;
BEGIN
    IF suffix IS NULL THEN
        RETURN '';
    END IF;
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
    LOCK TABLE ONLY webhook_events, ONLY webhook_deliveries, ONLY webhook_attempts IN ACCESS EXCLUSIVE MODE;
    EXECUTE format($q$SELECT EXISTS (SELECT FROM %1$I WHERE status = 'pending' AND worker IS NULL)
        OR EXISTS (SELECT FROM %1$I WHERE worker IS NOT NULL)$q$, deliveries) INTO busy;
    IF busy THEN
        RAISE object_in_use;
    END IF;
    EXECUTE format('DROP TABLE %I, %I, %I', 'webhook_events_' || suffix, deliveries, 'webhook_attempts_' || suffix);
    DELETE FROM webhook_partitions WHERE name = suffix;
    RETURN '';
EXCEPTION -- with all that was done
    WHEN object_in_use THEN RETURN 'deliveries are pending';
    WHEN lock_not_available THEN RETURN 'its tables are in use';
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION advance_webhook_partitions(bigint, bigint), drop_webhook_partition(bigint) FROM PUBLIC;

-- What deployments/postgres-roles.sql grants to a role that deletes, for the roles of before.
-- +goose StatementBegin
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT DISTINCT grantee FROM information_schema.role_table_grants WHERE table_schema = current_schema()
        AND table_name = 'webhook_deliveries' AND privilege_type = 'DELETE' AND grantee <> 'PUBLIC'
    LOOP
        EXECUTE format('GRANT SELECT, UPDATE (kept) ON webhook_partitions TO %I', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION advance_webhook_partitions(bigint, bigint), drop_webhook_partition(bigint) TO %I', name);
    END LOOP;
END $$;
-- +goose StatementEnd
