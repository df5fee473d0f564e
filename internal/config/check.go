package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/caarlos0/env/v11"
)

const (
	mustBeHTTP  = "must be an http:// or https:// address without query, fragment or user"
	mostOfPorts = 65535

	// LongestRetention is in days.
	LongestRetention = 36500
)

// faults are those found, one for each variable: the first says enough.
type faults struct {
	list  []error
	named map[string]bool
}

// bad adds a fault of the variable when there is one.
func (f *faults) bad(when bool, variable, text string) {
	if when && !f.named[variable] {
		f.named[variable] = true
		f.list = append(f.list, errors.New(variable+": "+text))
	}
}

// wrong adds what a check says.
func (f *faults) wrong(variable string, err error) {
	if err != nil {
		f.bad(true, variable, err.Error())
	}
}

// between adds a fault of a number that is out of its range.
func (f *faults) between(variable string, n, least, most int) {
	f.bad(n < least || n > most, variable, fmt.Sprintf("must be %d to %d", least, most))
}

// file adds a fault of a path whose file cannot be read; an empty path is none.
func (f *faults) file(variable, path string) {
	if path == "" {
		return
	}
	_, err := os.ReadFile(path)
	f.bad(err != nil, variable, "names a file that cannot be read")
}

// parse adds every value that has the wrong form.
func (f *faults) parse(err error) {
	aggregate, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		f.list = append(f.list, err)
		return
	}
	for _, e := range aggregate.Errors {
		if p, ok := errors.AsType[env.ParseError](e); ok {
			f.bad(true, nameOf(p.Name), "must be "+article(p.Type.String()))
			continue
		}
		f.list = append(f.list, e)
	}
}

func article(kind string) string {
	switch kind {
	case "int", "int64":
		return "a whole number"
	case "bool":
		return "true or false"
	default:
		return "a duration such as 15s, 10m or 24h"
	}
}

const shortestToken = 16 // characters of OPERATOR_TOKEN, which may be guessed at

func (c *Config) check(f *faults) {
	f.wrong("HTTP_ADDR", listenFault(c.HTTPAddr))
	f.wrong("ADMIN_ADDR", listenFault(c.AdminAddr))
	f.bad(slices.ContainsFunc(c.AdminHosts, func(host string) bool {
		return strings.ContainsAny(host, " /@?#:") || strings.HasSuffix(host, ".")
	}), "ADMIN_HOSTS", "every item must be a name without scheme, port, path or a dot at its end")
	c.checkTyped(f)
	info, err := os.Stat(c.DataDir)
	f.bad(c.DatabaseURL == "" && err == nil && !info.IsDir(), "DATA_DIR", "must be a directory")
	f.between("WORKER_CONCURRENCY", c.Concurrency, 1, 10_000)
	f.between("RECEIVER_CONCURRENCY", c.ReceiverCalls, 1, 10_000)
	f.bad(c.Timeout <= 0, "WEBHOOK_TIMEOUT", "must be positive")
	f.bad(c.HTTPIdle <= 0, "HTTP_IDLE_TIMEOUT", "must be positive")
	f.bad(c.PauseAfter < 0, "WEBHOOK_PAUSE_AFTER", "must not be negative")
	f.bad(c.DrainDelay < 0 || c.DrainDelay > 25*time.Second, "DRAIN_DELAY", "must be 0s to 25s")
	f.bad(c.OperatorToken != "" && len(c.OperatorToken) < shortestToken, "OPERATOR_TOKEN",
		"must have at least 16 characters")
	f.between("SUPPLIER_RATE_LIMIT", c.RateLimit, 0, 1_000_000)
	f.between("RETENTION_DAYS", c.Retention, 0, LongestRetention)
	f.bad(c.CacheTTL < 0, "SCOREBOARD_CACHE_TTL", "must not be negative")
	f.bad(!httpAddress(c.PrimaryURL), "SPORTMONKS_BASE_URL", mustBeHTTP)
	f.bad(!httpAddress(c.FallbackURL), "BALLDONTLIE_BASE_URL", mustBeHTTP)
	_, err = parseSchedule(c.Schedule)
	f.wrong("WEBHOOK_RETRY_SCHEDULE", err)
	f.bad(!oneOf(c.LogLevel, "debug", "info", "warn", "error"), "LOG_LEVEL", "must be debug, info, warn or error")
	f.bad(!oneOf(c.LogFormat, "", "text", "json"), "LOG_FORMAT", "must be text or json")
	f.bad(c.BaseURL != "" && !httpAddress(c.BaseURL), "ESTIMATES_WEBHOOK_BASE_URL", mustBeHTTP)
	f.bad(c.PublicURL != "" && !httpOrigin(c.PublicURL), "PUBLIC_URL",
		"must be an http:// or https:// address without path, query, fragment or user")
	f.bad(slices.ContainsFunc(c.DenyNetworks, noNetwork), "WEBHOOK_DENY_NETWORKS",
		"every item must be an IP address or a network such as 2001:db8::/32")
	f.bad(slices.ContainsFunc(c.Proxies, noNetwork), "TRUSTED_PROXIES",
		"every item must be an IP address or a network such as 10.0.0.0/8")
}

// checkTyped looks at what travels in a header or is typed by people.
func (c *Config) checkTyped(f *faults) {
	oneLine := func(name string, value Secret) {
		f.bad(strings.ContainsFunc(string(value), unicode.IsControl), name, "must be one line without control characters")
	}
	oneLine("OPERATOR_TOKEN", c.OperatorToken)
	oneLine("PULSE_API_KEY", c.PulseKeys)
	oneLine("FALLBACK_API_KEY", c.FallbackKey)
	oneLine("SPORTMONKS_API_TOKEN", c.PrimaryToken)
}

// checkServers looks at the addresses of PostgreSQL and NATS.
func (c *Config) checkServers(f *faults) {
	for _, address := range []struct {
		name  string
		value Secret
	}{{"DATABASE_URL", c.DatabaseURL}, {"DATABASE_READ_URL", c.ReadURL}, {"TRACKER_DATABASE_URL", c.TrackerURL}} {
		if address.value != "" {
			f.wrong(address.name, postgresFault(string(address.value)))
		}
		f.bad(address.value != "" && c.DatabaseURL == "", address.name, "needs DATABASE_URL")
	}
	f.bad(c.NATSURL != "" && c.DatabaseURL == "", "DATABASE_URL",
		"required with NATS_URL, set it or remove that one: a worker reaches no database in DATA_DIR")
	c.checkNATS(f)
}

// checkSecrets asks for the secrets that cannot be generated: replicas must share them.
func (c *Config) checkSecrets(f *faults, role Role) {
	required := func(when bool, value Secret, name, command string) {
		f.bad(when && value == "", name, "required with DATABASE_URL; `"+command+"` prints one")
	}
	process := c.DatabaseURL != "" && role != ForCommand
	required(process && role == ForAPI, c.SigningKeys, "JWT_SIGNING_KEYS", "api keys generate")
	required(process, c.WebhookSecrets, "WEBHOOK_SIGNING_SECRETS", "api secrets generate")
	required(process, c.SecretsKeys, "SECRETS_KEY", "api keys generate --secrets")
	if role == ForWorker {
		f.bad(c.DatabaseURL == "", "DATABASE_URL", "required by the worker; without it the api process works by itself")
		f.bad(c.NATSURL == "", "NATS_URL", "required by the worker; without it the api process works by itself")
		f.bad(c.BaseURL == "", "ESTIMATES_WEBHOOK_BASE_URL",
			"required by the worker: the address at which it reaches the apis, such as http://load-balancer")
	}
	c.checkEvents(f)
	if c.WebhookSecrets != "" {
		_, err := ParseWebhookSecrets(c.WebhookSecrets)
		f.wrong("WEBHOOK_SIGNING_SECRETS", err)
	}
}

// checkEvents looks at where operator events go: both variables, or none. The address may hold a credential in its
// query.
func (c *Config) checkEvents(f *faults) {
	u, err := url.Parse(string(c.EventsURL))
	valid := err == nil && u.Host != "" && oneOf(u.Scheme, "http", "https") && u.User == nil && u.Fragment == ""
	f.bad(c.EventsURL != "" && !valid, "OPERATOR_WEBHOOK_URL",
		"must be an http:// or https:// address without fragment or user")
	f.bad(c.EventsURL == "" && c.EventsSecrets != "", "OPERATOR_WEBHOOK_URL", "required with OPERATOR_WEBHOOK_SECRET")
	f.bad(c.EventsURL != "" && c.EventsSecrets == "", "OPERATOR_WEBHOOK_SECRET",
		"required with OPERATOR_WEBHOOK_URL; `api secrets generate` prints one")
	if c.EventsSecrets != "" {
		_, err := ParseWebhookSecrets(c.EventsSecrets)
		f.wrong("OPERATOR_WEBHOOK_SECRET", err)
	}
}

var tracesHeaders = regexp.MustCompile("^" + tracesHeader + "(," + tracesHeader + ")*$")

const tracesHeader = "[ \\t]*[-!#$%&'*+.^_`|~0-9A-Za-z]+[ \\t]*=([^,%]|%[0-9A-Fa-f]{2})*"

// checkTraces looks at the standard OTEL variables that would otherwise fail at the first span.
func checkTraces(f *faults, environ map[string]string) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		f.bad(environ[name] != "" && !httpAddress(environ[name]), name, mustBeHTTP)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		f.bad(!oneOf(environ[name], "", "http/protobuf"), name, "must be http/protobuf: nothing else is spoken")
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		// The exporter would log a pair that it cannot read, with its value.
		f.bad(environ[name] != "" && !tracesHeaders.MatchString(environ[name]), name,
			"must be NAME=VALUE, several with a comma between; a % in a value is written %25")
	}
	for _, kind := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		for _, name := range []string{"OTEL_EXPORTER_OTLP_" + kind, "OTEL_EXPORTER_OTLP_TRACES_" + kind} {
			f.file(name, environ[name])
		}
	}
}

// listenFault reports what is wrong with an address to listen on; an empty one has a default.
func listenFault(address string) error {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("must be host:port, such as :8080 or 127.0.0.1:8080")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > mostOfPorts {
		return fmt.Errorf("its port must be 0 to %d", mostOfPorts)
	}
	if strings.ContainsAny(host, " /@?#") {
		return errors.New("its host must be a name or an IP address")
	}
	return nil
}

func httpAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && oneOf(u.Scheme, "http", "https") && u.User == nil && u.RawQuery == "" &&
		u.Fragment == ""
}

// httpOrigin reports whether it is such an address without a path.
func httpOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && httpAddress(text) && (u.Path == "" || u.Path == "/")
}

func noNetwork(text string) bool {
	_, err := network(text)
	return err != nil
}

// network reads an IP address, which is a network of one, or a network. IPv4 in IPv6 becomes IPv4, as addresses do
// before they are compared.
func network(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if mapped := 128 - 32; err == nil && p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p, err
}

func oneOf(text string, allowed ...string) bool { return slices.Contains(allowed, text) }
