-- The rights that each binary needs and no more. Run it as the schema's owner after `api migrate`, and again after
-- every upgrade:
--   psql "$OWNER_URL" -v ON_ERROR_STOP=1 -f deployments/postgres-roles.sql
-- with PGOPTIONS='-c supplyhub.retention_days=90' before it where the apis have RETENTION_DAYS. All of it is one transaction:
-- processes that run meanwhile lose no right for a moment. Then give the three roles passwords (\password supplyhub_api) and put
-- their addresses into DATABASE_URL, that of supplyhub_tracker into the api's and the commands' TRACKER_DATABASE_URL. The
-- commands of bin/api (migrate, supplier, tracker, retention …) are run as the owner.
-- It works in the schema that the owner's tables are in (the first of its search_path). An owner who may not create roles
-- lets an admin create the three first: CREATE ROLE supplyhub_api LOGIN; CREATE ROLE supplyhub_worker LOGIN; CREATE ROLE
-- supplyhub_tracker LOGIN; before PostgreSQL 16
-- that is the better way, as who may create roles there may give itself those that run programs on the server.
BEGIN;

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['supplyhub_api', 'supplyhub_worker'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
      BEGIN
        EXECUTE pg_catalog.format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE', name);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN -- by the same script in another database of the server
      END;
    END IF;
    EXECUTE pg_catalog.format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM %I', current_schema(), name);
    EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), name);
  END LOOP;
  EXECUTE pg_catalog.format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC, supplyhub_api, supplyhub_worker', current_schema());
  -- Nothing makes temporary tables; who could might put one in the place of the schema's own. Where the schema's owner is not the
  -- database's, an admin runs this line.
  EXECUTE pg_catalog.format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC, supplyhub_api, supplyhub_worker', current_database());
END $$;

-- The login that reads views of tracker clients which other roles own, as a view runs the code of who made it. It has nothing
-- of its own; the owner of such a view grants it: GRANT USAGE ON SCHEMA theirs TO supplyhub_tracker; GRANT SELECT ON
-- theirs.view TO supplyhub_tracker;
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'supplyhub_tracker') THEN
    BEGIN
      CREATE ROLE supplyhub_tracker LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
    END;
  END IF;
END $$;

-- Who makes a function there may have the owner call it. Before PostgreSQL 15, and in what was restored from there, the
-- schema public belongs to the superuser: the owner's REVOKE is only a warning.
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['supplyhub_api', 'supplyhub_worker', 'supplyhub_tracker'] LOOP
    IF has_schema_privilege(name, current_schema(), 'CREATE') THEN
      RAISE EXCEPTION '% may create objects in the schema %', name, current_schema()
        USING HINT = pg_catalog.format('As a superuser in this database: ALTER SCHEMA %I OWNER TO %I; then run this file again.',
          current_schema(), current_user);
    END IF;
  END LOOP;
END $$;

-- The settings that the processes ask for when they connect, for connections through a pooler, which does not carry
-- them. They spare each transaction there from setting them for itself.
DO $$
DECLARE
  name text;
  setting text;
BEGIN
  FOREACH name IN ARRAY ARRAY['supplyhub_api', 'supplyhub_worker'] LOOP
    FOREACH setting IN ARRAY ARRAY[
      $s$default_transaction_isolation = 'read committed'$s$,
      $s$idle_in_transaction_session_timeout = '3s'$s$,
      $s$lock_timeout = '1s'$s$,
      $s$statement_timeout = '30s'$s$,
      $s$jit = 'off'$s$,
      $s$random_page_cost = '1.1'$s$,
      $s$enable_seqscan = 'off'$s$,
      $s$enable_hashjoin = 'off'$s$,
      $s$enable_mergejoin = 'off'$s$,
      $s$plan_cache_mode = 'force_generic_plan'$s$
    ] LOOP
      EXECUTE pg_catalog.format('ALTER ROLE %I IN DATABASE %I SET ', name, current_database()) || setting;
    END LOOP;
  END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE NOTICE 'the settings of the two roles stay as they are: %', SQLERRM;
END $$;

-- Both look at the schema's version and the installation's id when they start.
GRANT SELECT ON schema_versions, installation TO supplyhub_api, supplyhub_worker;

-- bin/api: sessions, intake, estimates that come in, products, listings, the scoreboard's quota.
GRANT SELECT ON suppliers, supplier_api_keys, rate_services, settings, webhook_deliveries TO supplyhub_api;
GRANT SELECT (active_until), DELETE ON supplier_webhook_secrets TO supplyhub_api;
GRANT DELETE ON supplier_api_keys TO supplyhub_api;
GRANT UPDATE (webhook_url, updated_at) ON suppliers TO supplyhub_api; -- a supplier's own choice; locks the row while a session begins
GRANT SELECT, INSERT, UPDATE (active_until) ON supplier_webhook_secrets TO supplyhub_api; -- rotated by the supplier itself
GRANT SELECT, INSERT, UPDATE, DELETE ON sessions, tracker_pins TO supplyhub_api;
GRANT SELECT, INSERT, DELETE ON portal_links, portal_sessions TO supplyhub_api;
-- The acts of suppliers on the deliveries to their own receivers.
GRANT SELECT ON webhook_events, webhook_attempts, webhook_shards TO supplyhub_api;
GRANT UPDATE (status, series, next_attempt_at, updated_at, resent_at, ended_because) ON webhook_deliveries TO supplyhub_api;
GRANT SELECT, INSERT, UPDATE ON webhook_receivers, webhook_tests TO supplyhub_api;
GRANT SELECT, INSERT, UPDATE ON products, scoreboard_usage, material_requests TO supplyhub_api;
GRANT SELECT, INSERT ON material_rounds TO supplyhub_api;
GRANT USAGE, SELECT ON SEQUENCE request_numbers TO supplyhub_api, supplyhub_worker;
GRANT SELECT ON tracker_clients, tracker_client_keys, tracker_views, tracker_days, tracker_versions TO supplyhub_api;

-- The console: what it shows, and what an operator with OPERATOR_TOKEN does in it.
GRANT UPDATE (active) ON suppliers TO supplyhub_api;
-- Only when suppliers, their limits, keys, rates and settings are changed in the console too; without it the commands change them, as the owner.
-- GRANT INSERT, UPDATE ON suppliers TO supplyhub_api;
-- GRANT INSERT, UPDATE (active_until) ON supplier_api_keys TO supplyhub_api;
-- GRANT INSERT, UPDATE, DELETE ON rate_services, settings TO supplyhub_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON figures TO supplyhub_api, supplyhub_worker;

-- The views of tracker clients; `api tracker load` grants those that it makes from now on. Other tables that a later version makes
-- are granted here or not at all.
DO $$
DECLARE
  view text;
BEGIN
  FOR view IN SELECT pg_catalog.format('%I.%I', schemaname, viewname) FROM pg_views WHERE schemaname = current_schema() LOOP
    EXECUTE 'GRANT SELECT ON ' || view || ' TO supplyhub_api';
  END LOOP;
END $$;
ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM supplyhub_api;

-- Only with RETENTION_DAYS; without it run `api retention run` as the owner.
DO $$
BEGIN
  IF coalesce(nullif(current_setting('supplyhub.retention_days', true), ''), '0')::int > 0 THEN
    GRANT DELETE ON material_requests, material_rounds, webhook_events, webhook_deliveries, webhook_attempts TO supplyhub_api;
    GRANT SELECT, UPDATE ON webhook_events, webhook_deliveries, webhook_attempts TO supplyhub_api; -- UPDATE locks the rows
    GRANT SELECT, UPDATE (kept) ON webhook_partitions TO supplyhub_api;
    GRANT EXECUTE ON FUNCTION advance_webhook_partitions(bigint, bigint), drop_webhook_partition(bigint),
      delete_webhook_table() TO supplyhub_api;
  END IF;
END $$;

-- bin/worker: estimating and delivering. It sees no key, no session and no tracker.
GRANT SELECT ON suppliers, supplier_webhook_secrets, rate_services, products TO supplyhub_worker;
GRANT SELECT (supplier_id, id, uid, status, round, shard, tries, trace_id, trace_parent, created_at, round_at, due_at, updated_at, body),
    UPDATE (status, due_at, tries, failure, updated_at)
    ON material_requests TO supplyhub_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON workers TO supplyhub_worker;
GRANT SELECT, INSERT, UPDATE ON webhook_events, webhook_deliveries, webhook_attempts, webhook_receivers TO supplyhub_worker;
GRANT SELECT, UPDATE ON webhook_shards TO supplyhub_worker;

-- Both show the same gauges in /metrics; one of all processes counts them.
GRANT SELECT, INSERT, DELETE ON gauges TO supplyhub_api, supplyhub_worker;
GRANT SELECT ON settings, scoreboard_usage TO supplyhub_worker;

-- With OPERATOR_WEBHOOK_URL: both note what the operator is notified of, the workers send it.
GRANT INSERT ON operator_notices TO supplyhub_api, supplyhub_worker;
GRANT SELECT, UPDATE (at), DELETE ON operator_notices TO supplyhub_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON operator_events TO supplyhub_worker;

COMMIT;
