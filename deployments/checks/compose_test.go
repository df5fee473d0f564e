package checks_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// project is compose.yaml as `docker compose` reads it, with every required setting given.
func project(t *testing.T, settings map[string]string) (*types.Project, error) {
	t.Helper()
	return loader.LoadWithContext(context.WithoutCancel(t.Context()), types.ConfigDetails{
		WorkingDir: "..", ConfigFiles: types.ToConfigFiles([]string{"../compose.yaml"}), Environment: settings,
	}, func(o *loader.Options) { o.SetProjectName("supplyhub", true) })
}

// required are the settings that compose.yaml does not start without.
func required(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, match := range regexp.MustCompile(`\$\{([A-Z_]+):\?`).FindAllStringSubmatch(string(content), -1) {
		settings[match[1]] = "given"
	}
	if len(settings) < 5 {
		t.Fatalf("compose.yaml requires only %v", settings)
	}
	return settings
}

func TestCompose_is_read_by_compose_itself(t *testing.T) {
	t.Parallel()
	settings := required(t)
	settings["VERSION"] = "v1.2.3"
	p, err := project(t, settings)
	if err != nil {
		t.Fatal(err)
	}
	names := p.ServiceNames()
	for _, want := range []string{"postgres", "nats", "migrate", "roles", "api-1", "api-2", "worker", "proxy"} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no service %s but %v", want, names)
		}
	}
	if slices.Contains(names, "command") {
		t.Error("the operator's commands start by themselves")
	}
	for _, name := range []string{"api-1", "api-2", "worker", "migrate"} {
		s := p.Services[name]
		if s.Image != "supplyhub:v1.2.3" || s.Build == nil || *s.Build.Args["VERSION"] != "v1.2.3" {
			t.Errorf("%s: image %s", name, s.Image)
		}
		if published := len(s.Ports); published != 0 {
			t.Errorf("%s publishes %d ports; only the proxy is reached from outside", name, published)
		}
	}
}

// An intruder in one container writes nothing that outlives it but data, becomes no other user and takes no machine.
func TestCompose_leaves_an_intruder_in_any_container_nothing(t *testing.T) {
	t.Parallel()
	settings := required(t)
	p, err := project(t, settings)
	if err != nil {
		t.Fatal(err)
	}
	services := p.AllServices()
	if _, ok := services["command"]; !ok || len(services) < 9 {
		t.Fatalf("only %d services", len(services))
	}
	for name, s := range services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.Privileged ||
			!slices.Contains(s.SecurityOpt, "no-new-privileges:true") || !slices.Contains(s.Tmpfs, "/tmp") {
			t.Errorf("%s: read-only %t, without %v, privileged %t, %v, %v", name, s.ReadOnly, s.CapDrop, s.Privileged,
				s.SecurityOpt, s.Tmpfs)
		}
		if s.PidsLimit <= 0 || s.MemLimit <= 0 || s.Logging == nil || s.Logging.Options["max-size"] == "" ||
			s.Logging.Options["max-file"] == "" {
			t.Errorf("%s: up to %d processes and %d bytes, and logs within %v", name, s.PidsLimit, s.MemLimit, s.Logging)
		}
		if adds := len(s.CapAdd); adds > 0 && (name != "proxy" || !slices.Equal(s.CapAdd, []string{"NET_BIND_SERVICE"})) {
			t.Errorf("%s has %v", name, s.CapAdd)
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind && !v.ReadOnly {
				t.Errorf("%s writes to the machine's %s", name, v.Source)
			}
		}
	}
}

// No key passes a network in clear: who listens there finds TLS.
func TestCompose_publishes_plain_HTTP_on_the_loopback_only(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"": "127.0.0.1", "10.1.2.3": "10.1.2.3"} {
		settings := required(t)
		settings["PUBLIC_ADDR"] = address
		p, err := project(t, settings)
		if err != nil {
			t.Fatal(err)
		}
		published := 0
		for name, s := range p.Services {
			for _, port := range s.Ports {
				if published++; name != "proxy" || port.HostIP != want {
					t.Errorf("PUBLIC_ADDR=%s: %s publishes %s on %q", address, name, port.Published, port.HostIP)
				}
			}
		}
		if published != 1 {
			t.Errorf("%d ports are published", published)
		}
	}
}

func TestCompose_does_not_start_without_its_secrets(t *testing.T) {
	t.Parallel()
	for name := range required(t) {
		settings := required(t)
		delete(settings, name)
		if _, err := project(t, settings); err == nil {
			t.Errorf("it starts without %s", name)
		}
	}
}

// What a command does depends on the settings of the service: where a link leads, who is notified, which receivers are
// let be.
func TestCompose_command_has_every_setting_of_an_api_and_the_rights_of_the_owner(t *testing.T) {
	t.Parallel()
	settings := required(t)
	settings["PUBLIC_URL"], settings["OPERATOR_WEBHOOK_URL"] = "https://hub.example", "https://operator.example"
	p, err := project(t, settings)
	if err != nil {
		t.Fatal(err)
	}
	command := p.AllServices()["command"].Environment
	for name, value := range p.Services["api-1"].Environment {
		got := command[name]
		if same := got != nil && *got == *value; same == (name == "DATABASE_URL") {
			t.Errorf("%s of a command is the api's: %t", name, same)
		}
	}
	if address := command["DATABASE_URL"]; !strings.HasPrefix(*address, "postgres://supplyhub:") {
		t.Errorf("commands do not run as the owner but at %s", *address)
	}
}
