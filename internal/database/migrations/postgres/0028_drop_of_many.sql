-- +goose Up
-- As in 0027, but it asks for the spans of those suppliers alone that have rows in it, and counts their blocks in 64 parts at most: parts
-- of 16 were a statement for each 16 of thousands of suppliers. Before it counts it asks what is pending: as the caller keeps redeliveries
-- out, nothing becomes so afterwards, and what was counted stays what it is.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION drop_webhook_partition(uid bigint) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
    suffix text := (SELECT name FROM webhook_partitions WHERE first_uid = uid AND closed_at IS NOT NULL);
    events text := 'webhook_events_' || suffix;
    deliveries text := 'webhook_deliveries_' || suffix;
    attempts text := 'webhook_attempts_' || suffix;
    part record;
    began timestamptz;
    counted interval := '0';
    alone boolean := false;
    busy boolean;
BEGIN
    IF suffix IS NULL THEN
        RETURN '';
    END IF;
    EXECUTE format('LOCK TABLE %I, %I, %I IN SHARE UPDATE EXCLUSIVE MODE', events, deliveries, attempts);
    EXECUTE format($q$SELECT EXISTS (SELECT FROM %1$I WHERE status = 'pending' AND worker IS NULL)
        OR EXISTS (SELECT FROM %1$I WHERE worker IS NOT NULL)$q$, deliveries) INTO busy;
    IF busy THEN
        RETURN 'deliveries are pending';
    END IF;
    FOR part IN EXECUTE format($q$
        WITH RECURSIVE owners AS (SELECT min(destination) AS owner FROM %1$I WHERE destination <> 'own'
            UNION ALL SELECT (SELECT min(destination) FROM %1$I WHERE destination <> 'own' AND destination > o.owner)
                FROM owners AS o WHERE o.owner IS NOT NULL),
        spans AS (SELECT owner, min(s.first) AS first, max(s.last) AS last FROM owners AS o
            CROSS JOIN unnest(ARRAY['delivered', 'dead', 'failed']) AS k(status)
            CROSS JOIN LATERAL (SELECT min(created_at) AS first, max(created_at) AS last FROM %1$I d
                WHERE d.destination = o.owner AND d.destination <> 'own' AND d.status = k.status) AS s
            GROUP BY owner),
        starts AS (SELECT owner, start FROM list_counts WHERE list = 'deliveries'
            UNION SELECT owner, 0 FROM list_counts WHERE list = 'deliveries'
            UNION SELECT owner, 0 FROM list_changes WHERE list = 'deliveries'),
        ranges AS (SELECT s.owner, start, lead(start, 1, 9223372036854775807) OVER (PARTITION BY s.owner ORDER BY start) AS ends,
                first, last FROM starts AS s JOIN spans ON spans.owner = s.owner COLLATE "default"),
        blocks AS (SELECT owner, start, ends, row_number() OVER (ORDER BY owner, start) / greatest(16, count(*) OVER () / 64) AS number
            FROM ranges WHERE start <= last AND ends > first)
        SELECT array_agg(owner) AS owners, array_agg(start) AS starts, array_agg(ends) AS ends FROM blocks GROUP BY number
        $q$, deliveries)
    LOOP
        began := clock_timestamp();
        EXECUTE format($q$
            INSERT INTO list_changes
            SELECT 'deliveries', b.owner, s.status, '', b.start, c.n FROM unnest($1, $2, $3) AS b(owner, start, ends)
            CROSS JOIN unnest(ARRAY['delivered', 'dead', 'failed']) AS s(status)
            CROSS JOIN LATERAL (SELECT count(*) AS n FROM %I d WHERE d.destination = b.owner COLLATE "default"
                AND d.destination <> 'own' AND d.status = s.status AND d.created_at >= b.start AND d.created_at < b.ends) AS c
            WHERE c.n > 0$q$, deliveries) USING part.owners, part.starts, part.ends;
        IF counted < '0.4 s' THEN
            counted := counted + (clock_timestamp() - began);
            PERFORM pg_sleep_for(clock_timestamp() - began);
        END IF;
    END LOOP;
    EXECUTE format($q$INSERT INTO status_counts SELECT 'delivery', status, -count(*) FROM %I WHERE status IN ('dead', 'failed')
        GROUP BY status$q$, deliveries);
    FOR try IN 1..5 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', 10 * try || 'ms', true);
            LOCK TABLE ONLY webhook_events, ONLY webhook_deliveries, ONLY webhook_attempts IN ACCESS EXCLUSIVE MODE;
            alone := true;
        EXCEPTION WHEN lock_not_available THEN
        END;
        EXIT WHEN alone;
        PERFORM pg_sleep_for('0.1 s');
    END LOOP;
    IF NOT alone THEN
        RAISE lock_not_available;
    END IF;
    EXECUTE format('ALTER TABLE webhook_events DETACH PARTITION %I', events);
    EXECUTE format('ALTER TABLE webhook_deliveries DETACH PARTITION %I', deliveries);
    EXECUTE format('ALTER TABLE webhook_attempts DETACH PARTITION %I', attempts);
    DELETE FROM webhook_partitions WHERE name = suffix;
    RETURN '';
EXCEPTION -- with all that was done
    WHEN lock_not_available THEN RETURN 'its tables are in use';
END $$;
-- +goose StatementEnd

-- Every function finds what is in the schema and nothing that a role made for itself: PostgreSQL looks for a table in pg_temp first
-- unless the path names it, and the path that FROM CURRENT stored does not. Whoever replaces a function pins it again.
-- +goose StatementBegin
DO $$
DECLARE
    one regprocedure;
BEGIN
    FOREACH one IN ARRAY ARRAY['tracker_records_inserted()', 'tracker_records_deleted()', 'tracker_records_updated()',
        'tracker_records_truncated()', 'count_receivers()', 'count_row()', 'note_request()', 'note_delivery()', 'note_order()',
        'note_removed_requests()', 'note_removed_deliveries()', 'webhook_border(bigint)', 'webhook_event_body(bigint, bigint)',
        'advance_webhook_partitions(bigint, bigint)', 'settle_webhook_partition(bigint, bigint, bigint)',
        'drop_webhook_partition(bigint)', 'delete_webhook_table()']::regprocedure[]
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', one, current_schema());
    END LOOP;
END $$;
-- +goose StatementEnd
