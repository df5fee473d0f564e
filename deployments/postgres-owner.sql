-- Run once by a superuser in the service's new, empty database: its owner, who makes the schema and the two roles of
-- postgres-roles.sql and is no superuser. The password is in psql's environment.
\set ON_ERROR_STOP on
\getenv owner_password POSTGRES_OWNER_PASSWORD
CREATE ROLE supplyhub LOGIN NOSUPERUSER NOCREATEDB CREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'owner_password';
ALTER DATABASE :"DBNAME" OWNER TO supplyhub;
