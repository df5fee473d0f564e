package telemetry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersion_of_a_build_names_the_release_and_the_commit(t *testing.T) {
	t.Parallel()
	const pseudo = "-20261127040544-0123456789ab"
	for name, tt := range map[string]struct{ module, linked, want string }{
		"a checkout":               {"v0.0.0" + pseudo, "", release + "+0123456789ab"},
		"a changed checkout":       {"v0.0.0" + pseudo + "+dirty", "", release + "+0123456789ab.dirty"},
		"a checkout of the tag":    {release, "", release},
		"make build":               {"(devel)", "0123456789ab", release + "+0123456789ab"},
		"make build, stamped too":  {"v0.0.0" + pseudo + "+dirty", "0123456789ab.dirty", release + "+0123456789ab.dirty"},
		"make build of the tag":    {release, "0123456789ab", release},
		"go install of a tag":      {"v0.2.0", "", "v0.2.0"},
		"go install of a commit":   {"v0.0.0" + pseudo, "", release + "+0123456789ab"},
		"sources without a commit": {"(devel)", "", release + "+devel"},
		"nothing stamped":          {"", "", release + "+devel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := versionOf(tt.module, tt.linked); got != tt.want {
				t.Errorf("it is %s, want %s", got, tt.want)
			}
		})
	}
}

func TestVersion_is_the_same_in_the_binaries_the_chart_and_the_changelog(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	for file, lines := range map[string][]string{
		"CHANGELOG.md":                 {"## " + strings.TrimPrefix(release, "v") + " ("},
		"deployments/chart/Chart.yaml": {"version: " + strings.TrimPrefix(release, "v"), "appVersion: " + release},
	} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !strings.Contains("\n"+string(text), "\n"+line) {
				t.Errorf("%s has no line %q", file, line)
			}
		}
	}
}
