package deployments_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v4"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/config"
)

// composed is what the tests ask of compose.yaml; merges are done by the reader of YAML.
type composed struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Environment map[string]string `yaml:"environment"`
		Healthcheck map[string]any    `yaml:"healthcheck"`
		DependsOn   map[string]struct {
			Condition string `yaml:"condition"`
		} `yaml:"depends_on"`
	} `yaml:"services"`
}

func compose(t *testing.T) composed {
	t.Helper()
	var c composed
	if err := yaml.Unmarshal(read(t, "compose.yaml"), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// ofTheImage are the variables that the image sets or whose default is the only value that fits a container.
var ofTheImage = []string{"HTTP_ADDR", "DATA_DIR"}

// ofLibraries are the variables that Go and OpenTelemetry read by themselves in every binary. An empty one is none.
var ofLibraries = []string{"GOMEMLIMIT", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "OTEL_EXPORTER_OTLP_HEADERS",
	"OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER",
	"OTEL_TRACES_SAMPLER_ARG"}

func TestCompose_passes_every_variable_that_there_is_and_no_other(t *testing.T) {
	t.Parallel()
	services := compose(t).Services
	passed := maps.Clone(services["api-1"].Environment)
	maps.Copy(passed, services["worker"].Environment)
	for _, name := range config.Variables() {
		if _, ok := passed[name]; !ok && !slices.Contains(ofTheImage, name) {
			t.Errorf("compose.yaml does not pass %s: write `%s: ${%s:-}` for api, worker or both, and a line in .env.example",
				name, name, name)
		}
	}
	for _, service := range []string{"api-1", "api-2", "worker", "command"} {
		for _, name := range ofLibraries {
			if value := services[service].Environment[name]; !strings.HasPrefix(value, "${"+name+":-") &&
				value != "${OUTGOING_"+name+":-}" { // an operator's shell often has a proxy of its own, before .env
				t.Errorf("compose.yaml: %s does not get %s, but %q", service, name, value)
			}
		}
	}
	for _, service := range []string{"api-1", "api-2", "worker", "migrate", "command"} {
		for name := range services[service].Environment {
			if !slices.Contains(config.Variables(), name) && !slices.Contains(ofLibraries, name) {
				t.Errorf("compose.yaml: %s gets %s, which no binary reads", service, name)
			}
		}
	}
}

func TestCompose_starts_a_service_when_what_it_needs_is_healthy(t *testing.T) {
	t.Parallel()
	services := compose(t).Services
	needs := map[string][]string{"migrate": {"postgres"}, "roles": {"migrate"}, "api-1": {"roles", "nats"},
		"api-2": {"roles", "nats"}, "proxy": {"api-1", "api-2"}, "worker": {"proxy"}}
	for name, others := range needs {
		for _, other := range others {
			if c := services[name].DependsOn[other].Condition; c != "service_healthy" && c != "service_completed_successfully" {
				t.Errorf("%s does not wait until %s is healthy or done: %q", name, other, c)
			}
		}
	}
	for name, others := range needs {
		for _, other := range others {
			waits := services[name].DependsOn[other].Condition == "service_healthy"
			own := strings.HasPrefix(services[other].Image, "supplyhub") // the image's own health check
			if waits && len(services[other].Healthcheck) == 0 && !own {
				t.Errorf("%s waits for the health of %s, which has no health check", name, other)
			}
		}
	}
}

func TestCompose_gives_each_binary_its_own_rights_and_secrets(t *testing.T) {
	t.Parallel()
	services := compose(t).Services
	for name, role := range map[string]string{"api-1": "api", "api-2": "api", "worker": "worker"} {
		env := services[name].Environment
		if !strings.HasPrefix(env["DATABASE_URL"], "postgres://supplyhub_"+role+":") ||
			!strings.HasPrefix(env["NATS_URL"], "nats://"+role+":") {
			t.Errorf("%s does not use the roles of postgres-roles.sql and nats-users.conf", name)
		}
	}
	for _, secret := range []string{"JWT_SIGNING_KEYS", "PULSE_API_KEY", "SPORTMONKS_API_TOKEN", "FALLBACK_API_KEY"} {
		if _, ok := services["worker"].Environment[secret]; ok {
			t.Errorf("the worker gets %s and does not need it", secret)
		}
	}
}

func TestEnvExample_names_every_variable_that_compose_asks_for(t *testing.T) {
	t.Parallel()
	names := func(text []byte, pattern string) []string {
		var list []string
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			list = append(list, string(match[1]))
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	asked := names(read(t, "compose.yaml"), `\$\{([A-Z_]+)`)
	given := names(read(t, ".env.example"), `(?m)^([A-Z_]+)=`)
	for _, name := range asked {
		if !slices.Contains(given, name) {
			t.Errorf("compose.yaml asks for %s, .env.example does not name it", name)
		}
	}
	for _, name := range given {
		if !slices.Contains(asked, name) {
			t.Errorf(".env.example names %s, compose.yaml does not ask for it", name)
		}
	}
}

// written is the file that env.sh makes.
func written(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "env")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `umask 022; exec sh env.sh "$0"`, file)
	cmd.Env = append(os.Environ(), "SUPPLYHUB_API="+apptest.Binary(t, "api"), "VERSION=v1.2.3")
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

func TestEnvScript_keeps_the_keys_from_other_users_and_from_being_written_over(t *testing.T) {
	t.Parallel()
	file := written(t)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: other users may read the keys: %s", err, info.Mode())
	}
	keys := read(t, file)
	if out, err := exec.CommandContext(t.Context(), "sh", "env.sh", file).CombinedOutput(); err == nil ||
		!bytes.Contains(out, []byte("already")) || !bytes.Equal(read(t, file), keys) {
		t.Errorf("keys in use were written over: %v %s", err, out)
	}
}

// Both binaries start with the values that env.sh writes: each is put where compose.yaml would put it.
func TestEnvScript_writes_a_configuration_that_both_binaries_accept(t *testing.T) {
	t.Parallel()
	settings := map[string]string{}
	for line := range strings.SplitSeq(string(read(t, written(t))), "\n") {
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			settings[name] = value
		}
	}
	asked := regexp.MustCompile(`\$\{([A-Z_]+)(?::[-?]([^}]*))?\}`)
	for service, role := range map[string]config.Role{"api-1": config.ForAPI, "worker": config.ForWorker} {
		environment := map[string]string{}
		for name, text := range compose(t).Services[service].Environment {
			environment[name] = asked.ReplaceAllStringFunc(text, func(reference string) string {
				parts := asked.FindStringSubmatch(reference)
				if value := settings[parts[1]]; value != "" {
					return value
				}
				if strings.Contains(reference, ":?") {
					t.Errorf("%s is required and env.sh leaves it empty", parts[1])
				}
				return parts[2]
			})
		}
		if _, err := config.Load(environment, role); err != nil {
			t.Errorf("%s refuses what env.sh wrote: %v", service, err)
		}
	}
}

func TestNATSConf_is_valid_keeps_a_store_and_lets_in_the_two_users_only(t *testing.T) {
	for _, user := range []string{"API", "WORKER"} {
		t.Setenv("SUPPLYHUB_"+user+"_PASSWORD", "p0123456789")
	}
	options, err := server.ProcessConfigFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !options.JetStream || options.StoreDir == "" || options.JetStreamMaxStore < 2<<30 || options.Port != 4222 ||
		options.HTTPPort != 8222 {
		t.Errorf("JetStream %t in %q with %d bytes on port %d, monitor %d", options.JetStream, options.StoreDir,
			options.JetStreamMaxStore, options.Port, options.HTTPPort)
	}
	var users []string
	for _, user := range options.Users {
		users = append(users, user.Username)
	}
	if !slices.Equal(users, []string{"api", "worker"}) || options.NoAuthUser != "" {
		t.Errorf("NATS lets in %v, and %q without a password", users, options.NoAuthUser)
	}
}

// The files that are copied into the build must be enough for both binaries and hold nothing secret.
func TestDockerignore_lets_through_the_sources_and_nothing_else(t *testing.T) {
	t.Parallel()
	var kept []string
	for line := range strings.SplitSeq(string(read(t, "../.dockerignore")), "\n") {
		if path, ok := strings.CutPrefix(line, "!"); ok {
			kept = append(kept, path)
		}
	}
	slices.Sort(kept)
	if !slices.Equal(kept, []string{"cmd", "deployments/configuration.md", "deployments/embedded.go",
		"deployments/postgres-roles.sql", "deployments/samples", "go.mod", "go.sum", "internal", "pkg"}) {
		t.Errorf(".dockerignore lets through %v", kept)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.Dir}}{{end}}",
		"./cmd/...")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for dir := range strings.Lines(string(out)) {
		inside, own := strings.CutPrefix(strings.TrimSpace(dir), root+string(filepath.Separator))
		within := func(path string) bool {
			return strings.HasPrefix(filepath.ToSlash(inside)+"/", path+"/") || filepath.Dir(path) == inside
		}
		if own && !slices.ContainsFunc(kept, within) {
			t.Errorf("the binaries need %s, which .dockerignore holds back", inside)
		}
	}
}

func TestDockerfile_is_static_unprivileged_and_checks_its_health(t *testing.T) {
	t.Parallel()
	file := string(read(t, "Dockerfile"))
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "USER nonroot", "distroless/static",
		`CMD ["/usr/local/bin/api", "healthcheck"]`, `ENTRYPOINT ["/usr/local/bin/api"]`, "telemetry.version=${VERSION}"} {
		if !strings.Contains(file, want) {
			t.Errorf("Dockerfile does not say %s", want)
		}
	}
}

// Where nothing listens a health check fails with 1; a command that does not exist would be bad usage, 2.
func TestHealthChecks_are_commands_that_the_binaries_have(t *testing.T) {
	t.Parallel()
	for _, binary := range []string{"api", "worker"} {
		cmd := exec.CommandContext(t.Context(), apptest.Binary(t, binary), "healthcheck")
		cmd.Env = []string{"ADMIN_ADDR=127.0.0.1:1"}
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%s healthcheck: exit code %d: %s", binary, cmd.ProcessState.ExitCode(), out)
		}
	}
}
