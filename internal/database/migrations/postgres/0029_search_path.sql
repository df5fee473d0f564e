-- +goose Up
-- Every function finds its tables, and nobody else's, whoever calls it: pg_restore and loaders work with an empty search_path, and a
-- caller's temporary table comes last. FROM CURRENT would keep the path of whoever migrated.
-- +goose StatementBegin
DO $$
DECLARE
    home regnamespace := (SELECT relnamespace FROM pg_class WHERE oid = 'material_requests'::regclass);
    one regprocedure;
BEGIN
    FOR one IN SELECT oid FROM pg_proc WHERE pronamespace = home AND proname IN (
        'tracker_records_inserted', 'tracker_records_deleted', 'tracker_records_updated', 'tracker_records_truncated',
        'count_receivers', 'count_row', 'note_request', 'note_delivery', 'note_order', 'note_removed_requests',
        'note_removed_deliveries', 'webhook_border', 'advance_webhook_partitions', 'settle_webhook_partition',
        'drop_webhook_partition', 'delete_webhook_table', 'webhook_event_body')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %s, pg_temp', one, home); -- both are quoted where they need it
    END LOOP;
END $$;
-- +goose StatementEnd
