#!/bin/sh
# The entry of PostgreSQL's image, as far as compose.yaml uses it, for the image that machine.sh makes.
set -e
data=/var/lib/postgresql/data
if [ "$1" = postgres ] && [ ! -s "$data/PG_VERSION" ]; then
	printf %s "$POSTGRES_PASSWORD" >/tmp/password
	initdb -D "$data" -U postgres -E UTF8 --auth-local trust --auth-host scram-sha-256 --pwfile /tmp/password
	rm /tmp/password
	echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
	pg_ctl -D "$data" -w -o "-c listen_addresses=''" start
	createdb -U postgres "$POSTGRES_DB"
	for file in /docker-entrypoint-initdb.d/*.sql; do
		psql -U postgres -d "$POSTGRES_DB" -v ON_ERROR_STOP=1 -f "$file"
	done
	pg_ctl -D "$data" -m fast -w stop
fi
[ "$1" != postgres ] || set -- "$@" -D "$data" -c "listen_addresses=*"
exec "$@"
