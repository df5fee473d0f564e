package deployments_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// A tag that was moved, by who took over an account, changes nothing here: a build's actions and an image's parts are
// named by their digests, with the version next to them for people.
func TestSupplyChain_is_pinned_by_digest_with_the_version_next_to_it(t *testing.T) {
	t.Parallel()
	workflows, err := filepath.Glob("../.github/workflows/*")
	if err != nil || len(workflows) == 0 {
		t.Fatal(workflows, err)
	}
	image := regexp.MustCompile(`:[a-z0-9][a-z0-9.-]*@sha256:[0-9a-f]{64}( AS build)?$`)
	rules := []struct {
		files        []string
		names, wants *regexp.Regexp
		least        int
	}{
		{workflows, regexp.MustCompile(`uses:.*`), regexp.MustCompile(`@[0-9a-f]{40} # v\d+\.\d+\.\d+$`), 7},
		{[]string{"Dockerfile"}, regexp.MustCompile(`(?m)^FROM .*`), image, 2},
		{[]string{"compose.yaml"}, regexp.MustCompile(`image: (&postgres )?[a-z]+:[^$\n]*(\n|$)`), image, 3},
		{[]string{"chart/values.yaml"}, regexp.MustCompile(`(?m)rolesImage: .*`), image, 1},
	}
	for _, rule := range rules {
		found := 0
		for _, file := range rule.files {
			for _, line := range rule.names.FindAllString(string(read(t, file)), -1) {
				found++
				if line = strings.TrimSpace(line); !rule.wants.MatchString(line) {
					t.Errorf("%s: %s", file, line)
				}
			}
		}
		if found < rule.least {
			t.Errorf("%v: only %d are named", rule.files, found)
		}
	}
	postgres := regexp.MustCompile(`postgres:\S+@sha256:[0-9a-f]+`)
	if a, b := postgres.FindString(string(read(t, "compose.yaml"))),
		postgres.FindString(string(read(t, "chart/values.yaml"))); a != b {
		t.Errorf("compose.yaml runs %s, the chart %s", a, b)
	}
}

func TestVersions_has_those_that_compose_runs(t *testing.T) {
	t.Parallel()
	versions := string(read(t, "checks/versions.sh"))
	for _, server := range []struct{ inCompose, inVersions string }{
		{`image: nats:(\d+\.\d+)\.`, `NATS=[^}]*\bv%s\.`},
		{`image: &postgres postgres:(\d+)\.`, `POSTGRES=[^}]*\b%s\.`},
	} {
		found := regexp.MustCompile(server.inCompose).FindSubmatch(read(t, "compose.yaml"))
		if found == nil {
			t.Fatalf("compose.yaml has nothing like %s", server.inCompose)
		}
		wanted := strings.Replace(server.inVersions, "%s", regexp.QuoteMeta(string(found[1])), 1)
		if !regexp.MustCompile(wanted).MatchString(versions) {
			t.Errorf("checks/versions.sh has nothing like %s", wanted)
		}
	}
}

// job is what the tests ask of a workflow's job.
type job struct {
	Permissions map[string]string `yaml:"permissions"`
	Steps       []struct {
		Uses string         `yaml:"uses"`
		With map[string]any `yaml:"with"`
	} `yaml:"steps"`
}

func TestWorkflows_give_each_job_what_it_needs_and_keep_no_credentials(t *testing.T) {
	t.Parallel()
	workflows, err := filepath.Glob("../.github/workflows/*")
	if err != nil || len(workflows) < 2 {
		t.Fatal(workflows, err)
	}
	for _, file := range workflows {
		var flow struct {
			Permissions map[string]string `yaml:"permissions"`
			Jobs        map[string]job    `yaml:"jobs"`
		}
		if err := yaml.Unmarshal(read(t, file), &flow); err != nil || flow.Permissions == nil || len(flow.Permissions) > 0 ||
			len(flow.Jobs) == 0 {
			t.Fatalf("%s: %v: a job that says nothing has %v", file, err, flow.Permissions)
		}
		for name, job := range flow.Jobs {
			checkJob(t, name, job)
		}
	}
}

func checkJob(t *testing.T, name string, job job) {
	t.Helper()
	attested := false
	for _, step := range job.Steps {
		if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
			t.Errorf("%s: a later step finds the token of the checkout", name)
		}
		attested = attested || strings.HasPrefix(step.Uses, "actions/attest-build-provenance@")
	}
	writes := 0
	for _, right := range job.Permissions {
		if right == "write" {
			writes++
		}
	}
	publishes := job.Permissions["packages"] == "write" || job.Permissions["contents"] == "write"
	if job.Permissions["contents"] == "" || publishes != attested || !publishes && writes > 0 {
		t.Errorf("%s may do %v, attests what it publishes: %t", name, job.Permissions, attested)
	}
}

// modules returns the path of each go.mod, from the repository's root.
func modules(t *testing.T) (all []string) {
	t.Helper()
	for _, file := range files(t) {
		if path.Base(file) == "go.mod" {
			all = append(all, strings.TrimPrefix(file, ".."))
		}
	}
	if len(all) < 4 {
		t.Fatal(all)
	}
	return all
}

func TestDependabot_looks_after_all_that_is_pinned(t *testing.T) {
	t.Parallel()
	var bot struct {
		Updates []struct {
			Ecosystem   string   `yaml:"package-ecosystem"`
			Directory   string   `yaml:"directory"`
			Directories []string `yaml:"directories"`
		} `yaml:"updates"`
	}
	if err := yaml.Unmarshal(read(t, "../.github/dependabot.yml"), &bot); err != nil {
		t.Fatal(err)
	}
	watched := map[string][]string{}
	for _, u := range bot.Updates {
		watched[u.Ecosystem] = append(u.Directories, u.Directory)
	}
	for ecosystem, files := range map[string][]string{"github-actions": {"/.github/workflows/ci.yaml"},
		"docker": {"/deployments/Dockerfile"}, "docker-compose": {"/deployments/compose.yaml"}, "gomod": modules(t)} {
		for _, file := range files {
			if _, err := os.Stat(".." + file); err != nil {
				t.Error(err)
			}
			if dir := filepath.Dir(file); !slices.Contains(watched[ecosystem], strings.TrimSuffix(dir, ".github/workflows")) {
				t.Errorf("nothing looks after %s: %v", file, watched[ecosystem])
			}
		}
	}
}
