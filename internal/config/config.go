// Package config turns the environment into one struct. Its tags make `--help` and the README's table,
// so that they cannot drift from the code. Rooms receive the values they need, never the struct.
package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Config is every variable of both binaries. A field's `doc` is its sentence for people, `shown` the
// default as they should read it when it is not a plain value.
type Config struct {
	HTTPAddr       string        `env:"HTTP_ADDR" envDefault:":8080" doc:"public listener (api)"`
	AdminAddr      string        `env:"ADMIN_ADDR" shown:"127.0.0.1:9090, worker 127.0.0.1:9091" doc:"operator listener: /livez, /readyz, /metrics, /debug/pprof"`
	DataDir        string        `env:"DATA_DIR" envDefault:"./data" doc:"everything that the embedded default keeps"`
	DatabaseURL    Secret        `env:"DATABASE_URL" shown:"empty: SQLite in DATA_DIR" doc:"postgres://user:password@host/database"`
	ReadURL        Secret        `env:"DATABASE_READ_URL" shown:"empty: DATABASE_URL" doc:"a replica that the tracker listings are read from"`
	NATSURL        Secret        `env:"NATS_URL" shown:"empty: JetStream and the worker inside the api process" doc:"nats://host:4222, several separated by commas; then the worker is bin/worker"`
	NATSCreds      string        `env:"NATS_CREDS" doc:"NATS credentials file"`
	NATSReplicas   int           `env:"NATS_REPLICAS" envDefault:"1" doc:"replicas of the stream, 1 to 5"`
	SigningKeys    Secret        `env:"JWT_SIGNING_KEYS" shown:"embedded: generated in DATA_DIR; required with DATABASE_URL" doc:"JWT signing keys separated by commas: the first signs, all verify"`
	JWTIssuer      string        `env:"JWT_ISSUER" envDefault:"supplyhub" doc:"iss of the access tokens"`
	JWTAudience    string        `env:"JWT_AUDIENCE" envDefault:"supplyhub-api" doc:"aud of the access tokens"`
	WebhookSecrets Secret        `env:"WEBHOOK_SIGNING_SECRETS" shown:"embedded: generated in DATA_DIR; required with DATABASE_URL" doc:"the service's own whsec_ secrets separated by commas: the first signs, all verify"`
	SecretsKeys    Secret        `env:"SECRETS_KEY" shown:"embedded: generated in DATA_DIR; required with DATABASE_URL" doc:"keys separated by commas that encrypt suppliers' webhook secrets at rest: the first encrypts, all decrypt"`
	BaseURL        string        `env:"ESTIMATES_WEBHOOK_BASE_URL" shown:"the api's own address on loopback" doc:"where the service's own delivery-estimates endpoint is called"`
	Timeout        time.Duration `env:"WEBHOOK_TIMEOUT" envDefault:"15s" doc:"longest time of one webhook attempt"`
	Schedule       string        `env:"WEBHOOK_RETRY_SCHEDULE" envDefault:"5s,30s,2m,10m,30m,2h,6h,12h,24h" doc:"waits between webhook attempts, each with 20 % jitter"`
	AllowPrivate   bool          `env:"WEBHOOK_ALLOW_PRIVATE" envDefault:"false" doc:"let suppliers' webhooks lead to loopback and private addresses"`
	Concurrency    int           `env:"WORKER_CONCURRENCY" envDefault:"64" doc:"deliveries in flight per worker, 1 to 10000"`
	ReceiverCalls  int           `env:"RECEIVER_CONCURRENCY" envDefault:"64" doc:"calls that a supplier's receiver takes at once from all workers together, 1 to 10000; a supplier may have a limit of its own"`
	PulseKeys      Secret        `env:"PULSE_API_KEY" shown:"empty: the scoreboard answers 503" doc:"key of the scoreboard's callers; two separated by a comma while it is rotated"`
	FallbackKey    Secret        `env:"FALLBACK_API_KEY" shown:"empty: no fallback" doc:"key of the scoreboard's second provider"`
	PrimaryToken   Secret        `env:"SPORTMONKS_API_TOKEN" shown:"empty: the scoreboard answers 500" doc:"token of the scoreboard's first provider"`
	PrimaryURL     string        `env:"SPORTMONKS_BASE_URL" envDefault:"https://api.sportmonks.com/v3/football" doc:"address of the first provider"`
	FallbackURL    string        `env:"BALLDONTLIE_BASE_URL" envDefault:"https://api.balldontlie.io/fifa/worldcup/v1" doc:"address of the second provider"`
	CacheTTL       time.Duration `env:"SCOREBOARD_CACHE_TTL" envDefault:"10s" doc:"how long a scoreboard is answered from memory; 0 turns it off"`
	RateLimit      int           `env:"SUPPLIER_RATE_LIMIT" envDefault:"0" shown:"0: none" doc:"requests a second that each supplier may send to one api process"`
	Retention      int           `env:"RETENTION_DAYS" envDefault:"0" shown:"0: everything is kept" doc:"days after which the api deletes finished requests and their deliveries, once an hour"`
	Traces         string        `env:"OTEL_EXPORTER_OTLP_ENDPOINT" shown:"empty: nothing is traced" doc:"where traces go, OTLP over HTTP; the other standard OTEL variables count too"`
	LogLevel       string        `env:"LOG_LEVEL" envDefault:"info" doc:"debug, info, warn or error"`
	LogFormat      string        `env:"LOG_FORMAT" shown:"text on a terminal, else json" doc:"text or json"`
	Proxies        []string      `env:"TRUSTED_PROXIES" shown:"none" doc:"addresses or networks, separated by commas, whose X-Forwarded-For is believed for the logged client address"`
	DrainDelay     time.Duration `env:"DRAIN_DELAY" envDefault:"500ms" doc:"after SIGTERM: how long the api still answers while /readyz says 503, so that a load balancer notices"`
}

// Embedded tells whether JetStream and the worker run inside the api process.
func (c *Config) Embedded() bool { return c.NATSURL == "" }

// SQLitePath is the embedded database's file.
func (c *Config) SQLitePath() string { return filepath.Join(c.DataDir, "supplyhub.db") }

// RetrySchedule is WEBHOOK_RETRY_SCHEDULE as durations. Load has checked it.
func (c *Config) RetrySchedule() []time.Duration {
	waits, _ := parseSchedule(c.Schedule)
	return waits
}

// ScoreboardKeys are the keys of PULSE_API_KEY; empty ones are ignored.
func (c *Config) ScoreboardKeys() []string {
	var keys []string
	for key := range strings.SplitSeq(string(c.PulseKeys), ",") {
		if key = strings.TrimSpace(key); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Role is what the configuration is for; it decides which secrets must be given with DATABASE_URL.
type Role int

// The roles. A command that needs a missing secret says so itself.
const (
	ForCommand Role = iota
	ForAPI
	ForWorker
)

// Load reads name-to-value pairs and answers every fault at once; no fault shows a value.
func Load(environ map[string]string, role Role) (*Config, error) {
	cfg, err := env.ParseAsWithOptions[Config](env.Options{Environment: environ})
	var faults []error
	if err != nil {
		faults = append(faults, parseFaults(err)...)
	}
	faults = append(faults, cfg.check()...)
	faults = append(faults, cfg.checkSecrets(role)...)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return &cfg, nil
}

// parseFaults names the variable of every value that has the wrong form, and never shows the value.
func parseFaults(err error) []error {
	aggregate, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return []error{err}
	}
	var faults []error
	for _, e := range aggregate.Errors {
		if p, ok := errors.AsType[env.ParseError](e); ok {
			faults = append(faults, fmt.Errorf("%s: must be %s", nameOf(p.Name), article(p.Type.String())))
			continue
		}
		faults = append(faults, e)
	}
	return faults
}

func article(kind string) string {
	switch kind {
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	default:
		return "a duration such as 15s, 10m or 24h"
	}
}

func (c *Config) check() []error {
	faults := c.checkServers()
	bad := func(when bool, format string, args ...any) {
		if when {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	bad(c.NATSReplicas < 1 || c.NATSReplicas > 5, "NATS_REPLICAS: must be 1 to 5")
	bad(c.Concurrency < 1 || c.Concurrency > 10000, "WORKER_CONCURRENCY: must be 1 to 10000")
	bad(c.ReceiverCalls < 1 || c.ReceiverCalls > 10000, "RECEIVER_CONCURRENCY: must be 1 to 10000")
	bad(c.Timeout <= 0, "WEBHOOK_TIMEOUT: must be positive")
	bad(c.DrainDelay < 0 || c.DrainDelay > 25*time.Second, "DRAIN_DELAY: must be 0s to 25s")
	bad(c.RateLimit < 0 || c.RateLimit > 1_000_000, "SUPPLIER_RATE_LIMIT: must be 0 to 1000000")
	bad(c.Retention < 0 || c.Retention > 36500, "RETENTION_DAYS: must be 0 to 36500")
	bad(c.CacheTTL < 0, "SCOREBOARD_CACHE_TTL: must not be negative")
	bad(!httpAddress(c.PrimaryURL), "SPORTMONKS_BASE_URL: must be an http:// or https:// address without query, fragment or user")
	bad(!httpAddress(c.FallbackURL), "BALLDONTLIE_BASE_URL: must be an http:// or https:// address without query, fragment or user")
	if _, err := parseSchedule(c.Schedule); err != nil {
		faults = append(faults, err)
	}
	bad(!oneOf(c.LogLevel, "debug", "info", "warn", "error"), "LOG_LEVEL: must be debug, info, warn or error")
	bad(!oneOf(c.LogFormat, "", "text", "json"), "LOG_FORMAT: must be text or json")
	bad(c.BaseURL != "" && !httpAddress(c.BaseURL), "ESTIMATES_WEBHOOK_BASE_URL: must be an http:// or https:// address without query, fragment or user")
	for _, p := range c.Proxies {
		bad(!network(p), "TRUSTED_PROXIES: every item must be an IP address or a network such as 10.0.0.0/8")
	}
	return faults
}

// checkServers looks at the addresses of PostgreSQL and NATS.
func (c *Config) checkServers() []error {
	var faults []error
	bad := func(when bool, text string) {
		if when {
			faults = append(faults, errors.New(text))
		}
	}
	db := string(c.DatabaseURL)
	bad(db != "" && !strings.HasPrefix(db, "postgres://") && !strings.HasPrefix(db, "postgresql://"), "DATABASE_URL: must start with postgres://")
	read := string(c.ReadURL)
	bad(read != "" && !strings.HasPrefix(read, "postgres://") && !strings.HasPrefix(read, "postgresql://"), "DATABASE_READ_URL: must start with postgres://")
	bad(read != "" && db == "", "DATABASE_READ_URL: needs DATABASE_URL")
	for u := range strings.SplitSeq(string(c.NATSURL), ",") {
		bad(c.NATSURL != "" && !natsAddress(strings.TrimSpace(u)), "NATS_URL: every address must start with nats://, tls://, ws:// or wss://")
	}
	return faults
}

// checkSecrets asks for the secrets that cannot be generated: replicas must share them.
func (c *Config) checkSecrets(role Role) []error {
	var faults []error
	required := func(value Secret, name, command string) {
		if value == "" {
			faults = append(faults, fmt.Errorf("%s: required with DATABASE_URL; `%s` prints one", name, command))
		}
	}
	if c.DatabaseURL != "" && role != ForCommand {
		if role == ForAPI {
			required(c.SigningKeys, "JWT_SIGNING_KEYS", "api keys generate")
		}
		required(c.WebhookSecrets, "WEBHOOK_SIGNING_SECRETS", "api secrets generate")
		required(c.SecretsKeys, "SECRETS_KEY", "api keys generate --secrets")
	}
	if role == ForWorker {
		if c.DatabaseURL == "" {
			faults = append(faults, errors.New("DATABASE_URL: required by the worker; without it the api process works by itself"))
		}
		if c.NATSURL == "" {
			faults = append(faults, errors.New("NATS_URL: required by the worker; without it the api process works by itself"))
		}
	}
	if _, err := ParseWebhookSecrets(c.WebhookSecrets); c.WebhookSecrets != "" && err != nil {
		faults = append(faults, err)
	}
	return faults
}

// ParseWebhookSecrets reads WEBHOOK_SIGNING_SECRETS; a fault names the position, never the value.
func ParseWebhookSecrets(text Secret) ([]webhook.Secret, error) {
	var secrets []webhook.Secret
	for i, s := range strings.Split(string(text), ",") {
		secret, err := webhook.ParseSecret(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("WEBHOOK_SIGNING_SECRETS: number %d is not whsec_ and base64 of 24 to 64 bytes", i+1)
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
			return nil, errors.New("WEBHOOK_RETRY_SCHEDULE: must be positive durations separated by commas, such as 5s,30s,2m")
		}
		waits = append(waits, wait)
	}
	return waits, nil
}

func natsAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && oneOf(u.Scheme, "nats", "tls", "ws", "wss")
}

func httpAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && oneOf(u.Scheme, "http", "https") && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

func network(text string) bool {
	_, prefix := netip.ParsePrefix(text)
	_, addr := netip.ParseAddr(text)
	return prefix == nil || addr == nil
}

func oneOf(text string, allowed ...string) bool {
	for _, a := range allowed {
		if text == a {
			return true
		}
	}
	return false
}
