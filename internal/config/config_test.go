package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
)

const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

func production() map[string]string {
	return map[string]string{
		"DATABASE_URL": "postgres://u:hunter2@db/x", "NATS_URL": "nats://a:4222, nats://b:4222", "JWT_SIGNING_KEYS": "k",
		"WEBHOOK_SIGNING_SECRETS": secret, "SECRETS_KEY": "s",
		"ESTIMATES_WEBHOOK_BASE_URL": "http://lb",
	}
}

func TestLoad_defaults_are_the_embedded_service(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(map[string]string{}, config.ForAPI)
	if err != nil {
		t.Fatal(err)
	}
	if !cfg.Embedded() || cfg.HTTPAddr != ":8080" || cfg.DataDir != "./data" || cfg.SQLitePath() != "data/supplyhub.db" ||
		cfg.Timeout != 15*time.Second || cfg.Concurrency != 64 ||
		len(cfg.RetrySchedule()) != 9 || cfg.AllowPrivate || cfg.CacheTTL != 10*time.Second ||
		len(cfg.ScoreboardKeys()) != 0 {
		t.Errorf("got %+v", cfg)
	}
	if cfg, err := config.Load(production(), config.ForWorker); err != nil || cfg.Embedded() {
		t.Errorf("production: %v", err)
	}
}

func TestLoad_every_bad_value_is_named_and_none_is_shown(t *testing.T) {
	t.Parallel()
	bad := map[string]string{
		"DATABASE_URL": "mysql://u:hunter2@x", "NATS_URL": "http://hunter2", "NATS_REPLICAS": "6",
		"WEBHOOK_SIGNING_SECRETS": "hunter2", "ESTIMATES_WEBHOOK_BASE_URL": "https://u:hunter2@x",
		"WEBHOOK_TIMEOUT": "0s", "WEBHOOK_RETRY_SCHEDULE": "5s,-1s", "WORKER_CONCURRENCY": "0", "LOG_LEVEL": "loud",
		"LOG_FORMAT": "xml", "TRUSTED_PROXIES": "10.0.0.0/33", "WEBHOOK_DENY_NETWORKS": "hunter2",
		"OPERATOR_TOKEN": "hunter2", "ADMIN_HOSTS": "hunter2:9090", "PUBLIC_URL": "https://hub.example/hunter2",
		"DATABASE_READ_URL": "mysql://u:hunter2@x", "NATS_NKEY": "config.go", "NATS_CA": "config.go",
		"NATS_CERT": "/nowhere/hunter2", "NATS_STREAM": "a.b", "NATS_MAX_BYTES": "0",
		"DRAIN_DELAY": "1m", "SCOREBOARD_CACHE_TTL": "-1s", "SUPPLIER_RATE_LIMIT": "-1", "RETENTION_DAYS": "-1",
		"SPORTMONKS_BASE_URL": "ftp://x", "BALLDONTLIE_BASE_URL": "x", "WEBHOOK_ALLOW_PRIVATE": "hunter2",
		"HTTP_ADDR": "hunter2", "ADMIN_ADDR": "127.0.0.1:99999", "NATS_CREDS": "/nowhere/hunter2",
		"JWT_SIGNING_KEYS": "hunter2", "RECEIVER_CONCURRENCY": "ten",
		"OPERATOR_WEBHOOK_URL": "https://u:hunter2@x", "OPERATOR_WEBHOOK_SECRET": "hunter2",
		"OTEL_EXPORTER_OTLP_ENDPOINT": ":::hunter2", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
		"OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere/hunter2", "OTEL_EXPORTER_OTLP_HEADERS": "api-key:hunter2",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b,authorization=Bearer hunter2%zz",
	}
	keys := config.Rule{Variable: "JWT_SIGNING_KEYS", Check: func(string) error { return errors.New("key 1 is none") }}
	_, err := config.Load(bad, config.ForAPI, keys)
	if err == nil {
		t.Fatal("it is accepted")
	}
	for name := range bad {
		if n := strings.Count("\n"+err.Error(), "\n"+name+":"); n != 1 {
			t.Errorf("%s is named %d times in\n%v", name, n, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a value is shown:\n%v", err)
	}
	for name, value := range map[string]string{"NATS_REPLICAS": "three", "WORKER_CONCURRENCY": "1.5",
		"NATS_MAX_BYTES": "1GiB", "WEBHOOK_TIMEOUT": "15", "WEBHOOK_RETRY_SCHEDULE": ","} {
		if _, err := config.Load(map[string]string{name: value}, config.ForAPI); err == nil ||
			!strings.Contains(err.Error(), name) || strings.Contains(err.Error(), value+"\"") {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

func TestLoad_operator_events_need_both_variables(t *testing.T) {
	t.Parallel()
	const address = "https://ops.example/hook?key=hunter2"
	for _, c := range []struct{ url, secret, named string }{
		{"", "", ""}, {address, secret, ""}, {address, secret + "," + secret, ""},
		{address, "", "OPERATOR_WEBHOOK_SECRET"}, {"", secret, "OPERATOR_WEBHOOK_URL"},
		{"ops.example", secret, "OPERATOR_WEBHOOK_URL"}, {"https://ops.example/#x", secret, "OPERATOR_WEBHOOK_URL"},
	} {
		_, err := config.Load(map[string]string{"OPERATOR_WEBHOOK_URL": c.url, "OPERATOR_WEBHOOK_SECRET": c.secret},
			config.ForWorker)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if named := strings.Contains(said, "OPERATOR_"); named != (c.named != "") || !strings.Contains(said, c.named) ||
			strings.Contains(said, "hunter2") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestLoad_replicas_must_be_given_their_secrets(t *testing.T) {
	t.Parallel()
	for role, names := range map[config.Role]string{
		config.ForAPI:    "JWT_SIGNING_KEYS WEBHOOK_SIGNING_SECRETS SECRETS_KEY",
		config.ForWorker: "WEBHOOK_SIGNING_SECRETS SECRETS_KEY NATS_URL ESTIMATES_WEBHOOK_BASE_URL", config.ForCommand: "",
	} {
		_, err := config.Load(map[string]string{"DATABASE_URL": "postgres://db/x"}, role)
		for _, name := range strings.Fields(names) {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("role %d: %s is not asked for: %v", role, name, err)
			}
		}
		if names == "" && err != nil {
			t.Errorf("a command is refused: %v", err)
		}
	}
	if _, err := config.Load(map[string]string{}, config.ForWorker); err == nil ||
		!strings.Contains(err.Error(), "DATABASE_URL") {
		t.Errorf("a worker without a database: %v", err)
	}
}

func TestSecrets_print_as_stars(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(production(), config.ForAPI)
	if err != nil {
		t.Fatal(err)
	}
	cfg.PulseKeys = "hunter2"
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{string(text), fmt.Sprintf("%v %+v %#v", *cfg, *cfg, *cfg),
		cfg.DatabaseURL.LogValue().String()} {
		if strings.Contains(printed, "hunter2") || strings.Contains(printed, secret) {
			t.Errorf("a secret is printed: %s", printed)
		}
	}
}

func TestScoreboardKeys_ignore_empty_ones(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "[]", " ": "[]", ",": "[]", "a": "[a]", "a, b": "[a b]", ",a,": "[a]"} {
		cfg := config.Config{PulseKeys: config.Secret(text)}
		if got := fmt.Sprint(cfg.ScoreboardKeys()); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestLoad_addresses_to_listen_on(t *testing.T) {
	t.Parallel()
	for address, good := range map[string]bool{
		"": true, ":8080": true, "127.0.0.1:0": true, "[::1]:65535": true, "localhost:80": true,
		"foo": false, "127.0.0.1": false, "127.0.0.1:99999": false, "bar:x": false, ":-1": false, "http://a:80": false,
		"a b:80": false,
	} {
		_, err := config.Load(map[string]string{"HTTP_ADDR": address}, config.ForAPI)
		if (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestLoad_DATA_DIR_is_no_file(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(map[string]string{"DATA_DIR": file}, config.ForAPI); err == nil ||
		!strings.Contains(err.Error(), "DATA_DIR") {
		t.Errorf("got %v", err)
	}
}

func TestLoad_addresses_of_PostgreSQL(t *testing.T) {
	t.Parallel()
	const encode = "written %40"
	for address, fault := range map[string]string{
		"postgres://db/x": "",
		"postgresql://u@db:5432,db2:5432/x?target_session_attrs=any": "",
		"postgres://u:p%40ss%2F%3F%23@db/x?sslmode=verify-full":      "",
		"postgres:///x?host=%2Frun%2Fpostgresql&user=u":              "",
		"postgres://db/x?user=u@server":                              "",
		"postgres://u:12?hunter2@db":                                 encode,
		"postgres://u:hunter2/@db/x":                                 encode,
		"postgres://u:hunter2?@db/x":                                 encode,
		"postgres://u:hunter2#@db/x":                                 encode,
		"postgres://u:hunter2%@db/x":                                 encode,
		"postgres://u:pa@hunter2/x@db/x":                             encode,
		"host=db dbname=x password=hunter2":                          "must start with postgres://",
	} {
		for _, variable := range []string{"DATABASE_URL", "DATABASE_READ_URL"} {
			environ := production()
			environ[variable] = address
			_, err := config.Load(environ, config.ForAPI)
			if (err != nil) != (fault != "") || err != nil && !strings.Contains(err.Error(), variable+": ") ||
				err != nil && !strings.Contains(err.Error(), fault) {
				t.Errorf("%s=%s: %v", variable, address, err)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the password is shown: %v", err)
			}
		}
	}
}

// Addresses are compared as IPv4 where they are IPv4 in IPv6.
func TestNetworks_of_IPv4_in_IPv6_are_those_of_IPv4(t *testing.T) {
	t.Parallel()
	const networks = "::ffff:203.0.113.0/120, ::ffff:198.51.100.7, 192.0.2.0/24, 2001:db8::/32"
	cfg, err := config.Load(map[string]string{"WEBHOOK_DENY_NETWORKS": networks, "TRUSTED_PROXIES": networks},
		config.ForAPI)
	if err != nil {
		t.Fatal(err)
	}
	var trusted []netip.Prefix
	for _, text := range cfg.Trusted() {
		trusted = append(trusted, netip.MustParsePrefix(text))
	}
	for name, list := range map[string][]netip.Prefix{"denied": cfg.Denied(), "trusted": trusted} {
		for address, want := range map[string]bool{"203.0.113.7": true, "203.0.114.7": false, "198.51.100.7": true,
			"198.51.100.8": false, "192.0.2.1": true, "2001:db8::1": true, "2001:db9::1": false} {
			if in := slices.ContainsFunc(list, func(p netip.Prefix) bool {
				return p.Contains(netip.MustParseAddr(address))
			}); in != want {
				t.Errorf("%s: %s is %t", name, address, in)
			}
		}
	}
}
