-- The passwords of the three roles of postgres-roles.sql, from the environment of psql.
\set ON_ERROR_STOP on
\getenv api POSTGRES_API_PASSWORD
\getenv worker POSTGRES_WORKER_PASSWORD
\set tracker ''
\getenv tracker POSTGRES_TRACKER_PASSWORD
SELECT set_config('supplyhub.api_password', :'api', false), set_config('supplyhub.worker_password', :'worker', false),
  set_config('supplyhub.tracker_password', :'tracker', false) \g /dev/null
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['api', 'worker', 'tracker'] LOOP
    CONTINUE WHEN current_setting('supplyhub.' || name || '_password') = ''; -- no tracker needs a login
    BEGIN
      EXECUTE pg_catalog.format('ALTER ROLE %I PASSWORD %L', 'supplyhub_' || name,
        current_setting('supplyhub.' || name || '_password'));
    EXCEPTION WHEN insufficient_privilege THEN -- from PostgreSQL 16 on, of a role that came with a move from an older server
      RAISE WARNING 'the password of supplyhub_% stays as it is: %', name, SQLERRM
        USING HINT = pg_catalog.format('As a superuser: GRANT %I TO %I WITH ADMIN OPTION; then run this file again.',
          'supplyhub_' || name, current_user);
    END;
  END LOOP;
END $$;
