-- Run once by a superuser in the service's new, empty database: its owner, who makes the schema and the three roles of
-- postgres-roles.sql and is no superuser. The password is in psql's environment.
\set ON_ERROR_STOP on
\getenv owner_password POSTGRES_OWNER_PASSWORD
SELECT NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'supplyhub') AS is_new \gset
\if :is_new
CREATE ROLE supplyhub LOGIN NOSUPERUSER NOCREATEDB CREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'owner_password';
\endif
ALTER DATABASE :"DBNAME" OWNER TO supplyhub;
-- Before PostgreSQL 15 everybody may create objects in it, and only its owner takes that away (postgres-roles.sql does).
ALTER SCHEMA public OWNER TO supplyhub;
