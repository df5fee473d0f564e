// Package config turns the environment into one struct. The table of deployments/configuration.md says what each
// variable is, and `--help` prints it; a test compares it with the struct. Features receive the values they need, never
// the struct.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Config is every variable of both binaries.
type Config struct {
	HTTPAddr       string        `env:"HTTP_ADDR" envDefault:":8080"`
	HTTPIdle       time.Duration `env:"HTTP_IDLE_TIMEOUT" envDefault:"620s"`
	AdminAddr      string        `env:"ADMIN_ADDR"`
	AdminHosts     list          `env:"ADMIN_HOSTS"`
	OperatorToken  Secret        `env:"OPERATOR_TOKEN"`
	EventsURL      Secret        `env:"OPERATOR_WEBHOOK_URL"`
	EventsSecrets  Secret        `env:"OPERATOR_WEBHOOK_SECRET"`
	DataDir        string        `env:"DATA_DIR" envDefault:"./data"`
	DatabaseURL    Secret        `env:"DATABASE_URL"`
	ReadURL        Secret        `env:"DATABASE_READ_URL"`
	TrackerURL     Secret        `env:"TRACKER_DATABASE_URL"`
	NATSURL        Secret        `env:"NATS_URL"`
	NATSCreds      string        `env:"NATS_CREDS"`
	NATSNKey       string        `env:"NATS_NKEY"`
	NATSCA         string        `env:"NATS_CA"`
	NATSCert       string        `env:"NATS_CERT"`
	NATSKey        string        `env:"NATS_KEY"`
	NATSStream     string        `env:"NATS_STREAM" envDefault:"MR"`
	NATSMaxBytes   int64         `env:"NATS_MAX_BYTES" envDefault:"1073741824"`
	NATSReplicas   int           `env:"NATS_REPLICAS" envDefault:"1"`
	SigningKeys    Secret        `env:"JWT_SIGNING_KEYS"`
	JWTIssuer      string        `env:"JWT_ISSUER" envDefault:"supplyhub"`
	JWTAudience    string        `env:"JWT_AUDIENCE" envDefault:"supplyhub-api"`
	WebhookSecrets Secret        `env:"WEBHOOK_SIGNING_SECRETS"`
	SecretsKeys    Secret        `env:"SECRETS_KEY"`
	BaseURL        string        `env:"ESTIMATES_WEBHOOK_BASE_URL"`
	PauseAfter     time.Duration `env:"WEBHOOK_PAUSE_AFTER"`
	PublicURL      string        `env:"PUBLIC_URL"`
	Timeout        time.Duration `env:"WEBHOOK_TIMEOUT" envDefault:"15s"`
	Schedule       string        `env:"WEBHOOK_RETRY_SCHEDULE" envDefault:"5s,30s,2m,10m,30m,2h,6h,12h,24h"`
	AllowPrivate   bool          `env:"WEBHOOK_ALLOW_PRIVATE" envDefault:"false"`
	DenyNetworks   list          `env:"WEBHOOK_DENY_NETWORKS"`
	Concurrency    int           `env:"WORKER_CONCURRENCY" envDefault:"64"`
	ReceiverCalls  int           `env:"RECEIVER_CONCURRENCY" envDefault:"64"`
	PulseKeys      Secret        `env:"PULSE_API_KEY"`
	FallbackKey    Secret        `env:"FALLBACK_API_KEY"`
	PrimaryToken   Secret        `env:"SPORTMONKS_API_TOKEN"`
	PrimaryURL     string        `env:"SPORTMONKS_BASE_URL" envDefault:"https://api.sportmonks.com/v3/football"`
	FallbackURL    string        `env:"BALLDONTLIE_BASE_URL" envDefault:"https://api.balldontlie.io/fifa/worldcup/v1"`
	CacheTTL       time.Duration `env:"SCOREBOARD_CACHE_TTL" envDefault:"10s"`
	RateLimit      int           `env:"SUPPLIER_RATE_LIMIT" envDefault:"0"`
	Retention      int           `env:"RETENTION_DAYS" envDefault:"0"`
	Traces         string        `env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	LogLevel       string        `env:"LOG_LEVEL" envDefault:"info"`
	LogFormat      string        `env:"LOG_FORMAT"`
	Proxies        list          `env:"TRUSTED_PROXIES"`
	DrainDelay     time.Duration `env:"DRAIN_DELAY" envDefault:"500ms"`
}

// Embedded reports whether JetStream and the worker run inside the api process.
func (c *Config) Embedded() bool { return c.NATSURL == "" }

// SQLitePath returns the embedded database's file.
func (c *Config) SQLitePath() string { return filepath.Join(c.DataDir, "supplyhub.db") }

// RetrySchedule returns WEBHOOK_RETRY_SCHEDULE as durations. Load has checked it.
func (c *Config) RetrySchedule() []time.Duration {
	waits, _ := parseSchedule(c.Schedule)
	return waits
}

// Denied returns WEBHOOK_DENY_NETWORKS. Load has checked them.
func (c *Config) Denied() []netip.Prefix { return networks(c.DenyNetworks) }

// Trusted returns TRUSTED_PROXIES as gin reads them. Load has checked them.
func (c *Config) Trusted() (list []string) {
	for _, p := range networks(c.Proxies) {
		list = append(list, p.String())
	}
	return list
}

func networks(texts []string) (list []netip.Prefix) {
	for _, text := range texts {
		if p, err := network(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// ScoreboardKeys returns the keys of PULSE_API_KEY; empty ones are ignored.
func (c *Config) ScoreboardKeys() []string { return List(string(c.PulseKeys)) }

// Role is what the configuration is for; it decides which secrets must be given with DATABASE_URL.
type Role int

// The roles. A command that needs a missing secret says so itself.
const (
	ForCommand Role = iota
	ForAPI
	ForWorker
)

// Rule checks the value of a variable whose form another package knows. Its error never shows the value.
type Rule struct {
	Variable string
	Check    func(value string) error
}

// Load reads name-to-value pairs and returns every fault at once, one for each variable; no fault shows a value.
// It opens nothing but the files that variables name.
func Load(environ map[string]string, role Role, rules ...Rule) (*Config, error) {
	f := faults{named: map[string]bool{}}
	cfg, err := env.ParseAsWithOptions[Config](env.Options{Environment: environ})
	if err != nil {
		f.parse(err)
	}
	cfg.checkServers(&f)
	cfg.checkSecrets(&f, role)
	cfg.check(&f)
	checkTraces(&f, environ)
	for _, rule := range rules {
		if value := environ[rule.Variable]; value != "" {
			f.wrong(rule.Variable, rule.Check(value))
		}
	}
	if len(f.list) > 0 {
		return nil, errors.Join(append(f.list, Misspelled(environ)...)...)
	}
	return &cfg, nil
}

// list is a value that List reads.
type list []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *list) UnmarshalText(text []byte) error {
	*l = List(string(text))
	return nil
}

// List returns the items that commas separate, without the white space around them; never nil.
func List(text string) []string {
	items := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// clusters are names that Kubernetes sets for its services: NATS_PORT of one that is called nats.
var clusters = regexp.MustCompile(`_PORT$|_SERVICE_HOST$|_PORT_`)

// Misspelled returns a warning for each name that is no variable's and differs from one by a letter or two.
func Misspelled(environ map[string]string) (warnings []error) {
	variables := Variables()
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		if slices.Contains(variables, name) || clusters.MatchString(name) {
			continue
		}
		for _, meant := range variables {
			if near(name, meant, 2) {
				warnings = append(warnings, fmt.Errorf("%s is set and means nothing: is it %s?", name, meant))
				break
			}
		}
	}
	return warnings
}

// near reports whether so many edits of a letter make one text of the other.
func near(a, b string, edits int) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	if a == b || edits == 0 {
		return a == b
	}
	return a != "" && near(a[1:], b, edits-1) || b != "" && near(a, b[1:], edits-1) ||
		a != "" && b != "" && near(a[1:], b[1:], edits-1)
}

// ParseWebhookSecrets reads whsec_ secrets separated by commas; a fault names the position, never the value.
func ParseWebhookSecrets(text Secret) ([]webhook.Secret, error) {
	var secrets []webhook.Secret
	for i, s := range strings.Split(string(text), ",") {
		secret, err := webhook.ParseSecret(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("number %d is not whsec_ and base64 of 24 to 64 bytes", i+1)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

func parseSchedule(text string) ([]time.Duration, error) {
	var waits []time.Duration
	for part := range strings.SplitSeq(text, ",") {
		wait, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil || wait <= 0 {
			return nil, errors.New("must be positive durations separated by commas, such as 5s,30s,2m")
		}
		waits = append(waits, wait)
	}
	return waits, nil
}

// Secret is a value that prints as *** everywhere; string(s) is the only way to its text.
type Secret string

const hidden = "***"

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the value from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the value from JSON and every other text form.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
