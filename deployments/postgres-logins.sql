-- The passwords of the three roles of postgres-roles.sql, from the environment of psql, and what RETENTION_DAYS needs.
\set ON_ERROR_STOP on
\getenv api_password POSTGRES_API_PASSWORD
\getenv worker_password POSTGRES_WORKER_PASSWORD
\getenv tracker_password POSTGRES_TRACKER_PASSWORD
\getenv retention_days RETENTION_DAYS
ALTER ROLE supplyhub_api PASSWORD :'api_password';
ALTER ROLE supplyhub_worker PASSWORD :'worker_password';
\if :{?tracker_password}
ALTER ROLE supplyhub_tracker PASSWORD :'tracker_password';
\endif
SELECT coalesce(nullif(:'retention_days', ''), '0')::int > 0 AS retention \gset
\if :retention
GRANT DELETE ON material_requests, material_rounds, webhook_events, webhook_deliveries, webhook_attempts TO supplyhub_api;
GRANT SELECT, UPDATE ON webhook_events, webhook_deliveries, webhook_attempts TO supplyhub_api;
GRANT SELECT, UPDATE (kept) ON webhook_partitions TO supplyhub_api;
GRANT EXECUTE ON FUNCTION advance_webhook_partitions(bigint, bigint), drop_webhook_partition(bigint),
    delete_webhook_table() TO supplyhub_api;
\endif
