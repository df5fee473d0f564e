//go:build unix

package running_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/deployments/guide"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// boot mounts control groups of its own, which systemd writes to, and becomes systemd.
const boot = "umount /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec /lib/systemd/systemd"

// guest is a container that systemd runs in, with both binaries and their units in the places that these name.
type guest struct {
	machine
	id string
}

func newGuest(t *testing.T) guest {
	t.Helper()
	g := guest{machine: newMachine(t)}
	args := []string{"run", "--detach", "--rm", "--tmpfs", "/run", "--tmpfs", "/tmp", "--cgroupns", "private",
		"--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined",
		"--security-opt", "apparmor=unconfined"}
	for _, capability := range []string{"SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "DAC_READ_SEARCH", "SYS_NICE"} {
		args = append(args, "--cap-add", capability)
	}
	g.id = strings.TrimSpace(g.run(g.dir, "docker", append(args, "supplyhub-test/debian", "sh", "-c", boot)...))
	t.Cleanup(func() { _, _ = g.machine.try(g.dir, "docker", "rm", "--force", g.id) })
	g.until("systemctl is-system-running | grep -E 'running|degraded'")
	for from, to := range map[string]string{
		filepath.Join(g.dir, "bin", "api"):                            "/usr/local/bin/supplyhub-api",
		filepath.Join(g.dir, "bin", "worker"):                         "/usr/local/bin/supplyhub-worker",
		g.tree("deployments", "systemd", "supplyhub-api.service"):     "/etc/systemd/system/",
		g.tree("deployments", "systemd", "supplyhub-worker@.service"): "/etc/systemd/system/",
		g.tree("deployments"):                                         "/",
	} {
		g.run(g.dir, "docker", "cp", from, g.id+":"+to)
	}
	g.inside("mkdir -m 0700 -p /etc/supplyhub /backups; systemctl daemon-reload")
	return g
}

// inside runs lines as root.
func (g guest) inside(lines string) (printed string) {
	g.t.Helper()
	return g.run(g.dir, "docker", "exec", g.id, "bash", "-euc", lines)
}

// until waits until a line succeeds.
func (g guest) until(line string) {
	g.t.Helper()
	wait.Until(g.t, line, func() bool {
		_, err := g.quietly(g.dir, "docker", "exec", g.id, "sh", "-euc", line)
		return err == nil
	})
}

// healthy is the api's own readiness.
const healthy = "curl -sf http://127.0.0.1:9090/readyz"

// The unit runs with all of its restrictions, comes back after a crash, and is restored by the lines of backup.md.
func TestUnits_run_under_systemd_and_are_restored_by_the_lines_of_the_guide(t *testing.T) {
	g := newGuest(t)
	g.inside(`(umask 077; : > /etc/supplyhub/api.env)
systemctl enable --now supplyhub-api`)
	g.until(healthy)
	const command = "DATA_DIR=/var/lib/supplyhub supplyhub-api "
	made := g.inside(command + "supplier create --name Acme")
	g.inside(command + "backup /backups/supplyhub-2026-11-23.tar")
	g.inside(command + "supplier create --name Later")
	g.inside(guide.Blocks(t, document("backup.md"), "Embedded with the systemd unit")[0])
	g.until(healthy)
	if list := g.inside(command + "supplier list"); !strings.Contains(list, "Acme") || strings.Contains(list, "Later") {
		t.Errorf("of %s it has %s", made, list)
	}
	g.inside("systemctl kill -s KILL supplyhub-api")
	g.until("systemctl show -P NRestarts supplyhub-api | grep -qx 1 && " + healthy)
	g.inside("systemctl stop supplyhub-api && systemctl show -P Result supplyhub-api | grep -qx success")
}

// production is PostgreSQL with the least rights, and the settings of both units.
const production = `systemctl start postgresql@15-main
su postgres -c "createdb -E UTF8 -T template0 supplyhub"
export POSTGRES_OWNER_PASSWORD=owner POSTGRES_API_PASSWORD=api
export POSTGRES_WORKER_PASSWORD=worker POSTGRES_TRACKER_PASSWORD=tracker
su postgres -c "psql -d supplyhub -f /deployments/postgres-owner.sql"
url() { echo "postgres://$1:$2@127.0.0.1/supplyhub"; }
export OWNER_URL=$(url supplyhub owner)
DATABASE_URL=$OWNER_URL supplyhub-api migrate
psql "$OWNER_URL" -q -v ON_ERROR_STOP=1 -f /deployments/postgres-roles.sql -f /deployments/postgres-logins.sql
umask 077
both="NATS_URL=nats://127.0.0.1:4222
WEBHOOK_SIGNING_SECRETS=$(supplyhub-api secrets generate)
SECRETS_KEY=$(supplyhub-api keys generate --secrets)"
echo "$both
DATABASE_URL=$(url supplyhub_api api)
TRACKER_DATABASE_URL=$(url supplyhub_tracker tracker)
JWT_SIGNING_KEYS=$(supplyhub-api keys generate)" > /etc/supplyhub/api.env
echo "$both
DATABASE_URL=$(url supplyhub_worker worker)
ESTIMATES_WEBHOOK_BASE_URL=http://127.0.0.1:8080" > /etc/supplyhub/worker.env
systemctl enable --now supplyhub-api supplyhub-worker@1 supplyhub-worker@2`

// submitted sends a request as README.md does, with the key of a supplier that the owner makes.
const submitted = `. /etc/supplyhub/worker.env
export SECRETS_KEY DATABASE_URL=postgres://supplyhub:owner@127.0.0.1/supplyhub
key=$(supplyhub-api supplier create --name Acme | sed -n 's/^api_key *//p')
hub=http://127.0.0.1:8080/api
token=$(curl -sf -X POST $hub/external-auth/token -H "x-api-key: $key" | sed 's/.*"AccessToken":"\([^"]*\)".*/\1/')
curl -sf $hub/material-requests -H "Authorization: Bearer $token" -H 'Content-Type: application/json' \
	-d @/deployments/samples/material-request.json
id=$(sed -n 's/.*"id": *\([0-9]*\).*/\1/p' /deployments/samples/material-request.json | head -1)
curl -sf "$hub/material-requests/$id?wait=60s" -H "Authorization: Bearer $token"`

// An api and two workers as units on PostgreSQL. No NATS runs: the workers find the work in the database.
func TestUnits_run_an_api_and_workers_with_the_least_rights(t *testing.T) {
	g := newGuest(t)
	g.inside(production)
	for _, port := range []string{"9090", "9091", "9092"} {
		g.until("curl -sf http://127.0.0.1:" + port + "/livez")
	}
	if answer := g.inside(submitted); !strings.Contains(answer, `"status":"estimated"`) {
		t.Errorf("the request is %s", answer)
	}
	g.inside("systemctl kill -s KILL supplyhub-worker@1")
	g.until("systemctl show -P NRestarts supplyhub-worker@1 | grep -qx 1 && curl -sf http://127.0.0.1:9091/livez")
	for _, unit := range []string{"supplyhub-worker@1", "supplyhub-worker@2", "supplyhub-api"} {
		g.inside("systemctl stop " + unit + " && systemctl show -P Result " + unit + " | grep -qx success")
	}
}
