// Package config turns the environment into one struct. Its tags make `--help` and the README's table,
// so that they cannot drift from the code. Features receive the values they need, never the struct.
package config

import (
	"errors"
	"fmt"
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
	AdminAddr      string        `env:"ADMIN_ADDR" shown:"127.0.0.1:9090, worker 127.0.0.1:9091" doc:"operator listener: /console (api), /livez, /readyz, /metrics, /debug/pprof"`
	AdminHosts     []string      `env:"ADMIN_HOSTS" shown:"none" doc:"names, separated by commas, under which the operator listener is called; IP addresses and localhost always work"`
	OperatorToken  Secret        `env:"OPERATOR_TOKEN" shown:"embedded: generated in DATA_DIR; else empty: the console only shows" doc:"what an operator enters to act in the console"`
	EventsURL      Secret        `env:"OPERATOR_WEBHOOK_URL" shown:"empty: no events are sent" doc:"where operator events are sent: of receivers that fail, recover or are paused, of dead deliveries and failed requests (all processes)"`
	EventsSecrets  Secret        `env:"OPERATOR_WEBHOOK_SECRET" shown:"empty; required with OPERATOR_WEBHOOK_URL" doc:"whsec_ secrets separated by commas: each signs what is sent there"`
	DataDir        string        `env:"DATA_DIR" envDefault:"./data" doc:"everything that the embedded default keeps"`
	DatabaseURL    Secret        `env:"DATABASE_URL" shown:"empty: SQLite in DATA_DIR" doc:"postgres://user:password@host/database"`
	ReadURL        Secret        `env:"DATABASE_READ_URL" shown:"empty: DATABASE_URL" doc:"a replica that the tracker listings are read from"`
	NATSURL        Secret        `env:"NATS_URL" shown:"empty: JetStream and the worker inside the api process" doc:"nats://host:4222, several separated by commas; then the worker is bin/worker"`
	NATSCreds      string        `env:"NATS_CREDS" doc:"NATS credentials file"`
	NATSNKey       string        `env:"NATS_NKEY" doc:"file of an nkey's seed"`
	NATSCA         string        `env:"NATS_CA" shown:"the system's" doc:"file of the PEM certificates that check the servers'"`
	NATSCert       string        `env:"NATS_CERT" doc:"file of the client's PEM certificate, with NATS_KEY"`
	NATSKey        string        `env:"NATS_KEY" doc:"file of the client certificate's PEM key"`
	NATSStream     string        `env:"NATS_STREAM" envDefault:"MR" doc:"name of the stream, and in small letters of its subjects: one for each installation in an account"`
	NATSMaxBytes   int64         `env:"NATS_MAX_BYTES" envDefault:"1073741824" doc:"bytes of queued messages, reserved by the server; more are refused and published again later"`
	NATSReplicas   int           `env:"NATS_REPLICAS" envDefault:"1" doc:"replicas of the stream, 1 to 5"`
	SigningKeys    Secret        `env:"JWT_SIGNING_KEYS" shown:"embedded: generated in DATA_DIR; required with DATABASE_URL" doc:"JWT signing keys separated by commas: the first signs, all verify"`
	JWTIssuer      string        `env:"JWT_ISSUER" envDefault:"supplyhub" doc:"iss of the access tokens"`
	JWTAudience    string        `env:"JWT_AUDIENCE" envDefault:"supplyhub-api" doc:"aud of the access tokens"`
	WebhookSecrets Secret        `env:"WEBHOOK_SIGNING_SECRETS" shown:"embedded: generated in DATA_DIR; required with DATABASE_URL" doc:"the service's own whsec_ secrets separated by commas: the first signs, all verify"`
	SecretsKeys    Secret        `env:"SECRETS_KEY" shown:"embedded: generated in DATA_DIR; required with DATABASE_URL" doc:"keys separated by commas that encrypt suppliers' webhook secrets at rest: the first encrypts, all decrypt"`
	BaseURL        string        `env:"ESTIMATES_WEBHOOK_BASE_URL" shown:"the api's own address on loopback; required by the worker" doc:"where the service's own delivery-estimates endpoint is called"`
	PauseAfter     time.Duration `env:"WEBHOOK_PAUSE_AFTER" doc:"after which of failures only a receiver is paused, e.g. 120h; empty: never"`
	PublicURL      string        `env:"PUBLIC_URL" shown:"the address that a call came in at" doc:"where suppliers' browsers find the api, such as https://hub.example: links into the portal begin with it"`
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

// Embedded reports whether JetStream and the worker run inside the api process.
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

// Rule checks the value of a variable whose form another package knows. Its error never shows the value.
type Rule struct {
	Variable string
	Check    func(value string) error
}

// Load reads name-to-value pairs and answers every fault at once, one for each variable; no fault shows a value.
// It opens nothing but the files that variables name.
func Load(environ map[string]string, role Role, rules ...Rule) (*Config, error) {
	var f faults
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
		return nil, errors.Join(f.list...)
	}
	return &cfg, nil
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
