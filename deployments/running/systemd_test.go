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

// The units run with all of their restrictions, come back after a crash, and a backup is restored by the lines of backup.md.
func TestUnits_run_under_systemd_and_are_restored_by_the_lines_of_the_guide(t *testing.T) {
	m := newMachine(t)
	args := []string{"run", "--detach", "--rm", "--tmpfs", "/run", "--tmpfs", "/tmp", "--cgroupns", "private",
		"--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined", "--security-opt", "apparmor=unconfined"}
	for _, capability := range []string{"SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "DAC_READ_SEARCH", "SYS_NICE"} {
		args = append(args, "--cap-add", capability)
	}
	guest := strings.TrimSpace(m.run(m.dir, "docker", append(args, "supplyhub-test/debian", "sh", "-c", boot)...))
	t.Cleanup(func() { _, _ = m.try(m.dir, "docker", "rm", "--force", guest) })
	inside := func(lines string) string {
		t.Helper()
		return m.run(m.dir, "docker", "exec", guest, "sh", "-euc", lines)
	}
	try := func(line string) bool {
		_, err := m.quietly(m.dir, "docker", "exec", guest, "sh", "-euc", line)
		return err == nil
	}
	wait.Until(t, "systemd runs", func() bool { return try("systemctl is-system-running | grep -E 'running|degraded'") })
	for from, to := range map[string]string{
		filepath.Join(m.dir, "bin", "api"):                            "/usr/local/bin/supplyhub-api",
		filepath.Join(m.dir, "bin", "worker"):                         "/usr/local/bin/supplyhub-worker",
		m.tree("deployments", "systemd", "supplyhub-api.service"):     "/etc/systemd/system/",
		m.tree("deployments", "systemd", "supplyhub-worker@.service"): "/etc/systemd/system/",
	} {
		m.run(m.dir, "docker", "cp", from, guest+":"+to)
	}
	inside(`mkdir -m 0700 -p /etc/supplyhub /backups
: > /etc/supplyhub/api.env
chmod 0600 /etc/supplyhub/api.env
systemctl daemon-reload
systemctl enable --now supplyhub-api`)
	const healthy = "curl -sf http://127.0.0.1:9090/readyz"
	wait.Until(t, "the api is ready", func() bool { return try(healthy) })
	const command = "DATA_DIR=/var/lib/supplyhub supplyhub-api "
	made := inside(command + "supplier create --name Acme")
	inside(command + "backup /backups/supplyhub-2026-11-23.tar")
	inside(command + "supplier create --name Later")
	inside(guide.Blocks(t, document("backup.md"), "Embedded with the systemd unit")[0])
	wait.Until(t, "the api is ready on what was restored", func() bool { return try(healthy) })
	if list := inside(command + "supplier list"); !strings.Contains(list, "Acme") || strings.Contains(list, "Later") {
		t.Errorf("of %s it has %s", made, list)
	}
	inside("systemctl kill -s KILL supplyhub-api")
	wait.Until(t, "the api comes back after a crash", func() bool {
		return try("systemctl show -P NRestarts supplyhub-api | grep -qx 1") && try(healthy)
	})
	inside("systemctl stop supplyhub-api && systemctl show -P Result supplyhub-api | grep -qx success")
}
