package deployments_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/config"
)

// units are the unit files with the binary that each starts.
var units = map[string]string{"supplyhub-api.service": "api", "supplyhub-worker@.service": "worker"}

// unit is the settings of a unit file; of one that is there several times all values.
func unit(t *testing.T, name string) map[string][]string {
	t.Helper()
	settings := map[string][]string{}
	for line := range strings.SplitSeq(string(read(t, "systemd/"+name)), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			settings[key] = append(settings[key], value)
		}
	}
	return settings
}

func TestUnits_set_only_variables_that_exist_and_come_back_after_a_crash(t *testing.T) {
	t.Parallel()
	for name, binary := range units {
		settings := unit(t, name)
		for _, assignment := range strings.Fields(strings.Join(settings["Environment"], " ")) {
			if variable, _, _ := strings.Cut(assignment, "="); !slices.Contains(config.Variables(), variable) {
				t.Errorf("%s sets %s, which no binary reads", name, variable)
			}
		}
		for key, want := range map[string]string{
			"Restart": "always", "StartLimitIntervalSec": "0", "EnvironmentFile": "/etc/supplyhub/" + binary + ".env",
			"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict",
		} {
			if got := strings.Join(settings[key], " "); got != want {
				t.Errorf("%s: %s=%s, want %s", name, key, got, want)
			}
		}
	}
}

// systemd itself reads the units, with the real binaries in their places, and judges how much they leave open.
func TestUnits_are_accepted_and_found_safe_by_systemd(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		fmt.Fprintln(os.Stderr, "systemd-analyze is not on this machine: the unit files were NOT verified by systemd")
		return
	}
	dir := t.TempDir()
	for name, binary := range units {
		text := strings.ReplaceAll(string(read(t, "systemd/"+name)), "/usr/local/bin/supplyhub-"+binary,
			apptest.Binary(t, binary))
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput(); err != nil ||
			len(out) > 0 {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		const exposure = "20" // tenths; systemd calls what is below 20 OK, and services without hardening reach 96
		if out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--threshold="+exposure,
			"--no-pager", file).CombinedOutput(); err != nil {
			t.Errorf("%s leaves more open than %s tenths: %v\n%s", name, exposure, err, out)
		}
	}
}
