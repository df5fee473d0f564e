package telemetry

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion_of_a_build_names_the_release_and_the_commit(t *testing.T) {
	t.Parallel()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for name, tt := range map[string]struct {
		module, revision, modified, linked, want string
	}{
		"a checkout":               {"v0.0.0-20261127040544-0123456789ab", commit, "false", "", release + "+0123456789ab"},
		"make build":               {"(devel)", "", "", "0123456789ab", release + "+0123456789ab"},
		"a changed checkout":       {"(devel)", commit, "true", "", release + "+0123456789ab.dirty"},
		"a checkout of the tag":    {release, commit, "false", "", release},
		"go install of a tag":      {"v0.2.0", "", "", "", "v0.2.0"},
		"sources without a commit": {"(devel)", "", "", "", release + "+devel"},
		"a short commit":           {"", "0123", "", "", release + "+0123"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := &debug.BuildInfo{Main: debug.Module{Version: tt.module}, Settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: tt.revision}, {Key: "vcs.modified", Value: tt.modified}}}
			if got := versionOf(info, tt.linked); got != tt.want {
				t.Errorf("it is %s, want %s", got, tt.want)
			}
		})
	}
	if got := versionOf(nil, ""); got != release+"+devel" {
		t.Errorf("without any stamp it is %s", got)
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
