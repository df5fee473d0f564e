package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/telemetry"
	"github.com/supplyhub/supplyhub/internal/terminal"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Where the secrets come from. In production they are configured, the same for all processes. With the embedded
// database those that are missing are made once and kept in DATA_DIR, readable by its owner alone, so that a first
// start needs no configuration; a command makes none.

// The files in DATA_DIR that hold what must not be lost or shown.
const (
	signingKeysFile   = "jwt_signing_keys"
	secretsKeyFile    = "secrets_key"
	webhooksFile      = "webhook_signing_secrets"
	operatorTokenFile = "operator_token"
)

// secrets are the service's own, from the configuration or from DATA_DIR.
type secrets struct {
	signingKeys string
	secretsKeys string
	webhooks    []webhook.Secret
	operator    string
}

// loadSecrets takes the configured secrets; with the embedded database, missing ones are made once in DATA_DIR, or are
// empty where everything must stay as it is.
func loadSecrets(cfg *config.Config, asItIs bool) (*secrets, error) {
	var failed error
	load := func(configured config.Secret, name string, generate func() (string, error)) string {
		file := filepath.Join(cfg.DataDir, name)
		_, err := os.Stat(file)
		if configured != "" || cfg.DatabaseURL != "" || failed != nil || asItIs && errors.Is(err, fs.ErrNotExist) {
			return string(configured)
		}
		var text string
		text, failed = keptSecret(file, generate)
		return text
	}
	s := &secrets{
		signingKeys: load(cfg.SigningKeys, signingKeysFile, supplierauth.GenerateSigningKey),
		secretsKeys: load(cfg.SecretsKeys, secretsKeyFile, supplierauth.GenerateSecretsKey),
		operator:    load(cfg.OperatorToken, operatorTokenFile, func() (string, error) { return rand.Text(), nil }),
	}
	webhooks := load(cfg.WebhookSecrets, webhooksFile, GenerateWebhookSecret)
	if failed != nil || webhooks == "" {
		return s, failed
	}
	var err error
	s.webhooks, err = config.ParseWebhookSecrets(config.Secret(webhooks))
	return s, errs.Doing("WEBHOOK_SIGNING_SECRETS", err)
}

// keptSecret reads the secret in file, or makes it. If two processes start at once, one writes it and both read that.
func keptSecret(file string, generate func() (string, error)) (string, error) {
	text, err := os.ReadFile(file)
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read secret: %w", err)
	}
	if err := writeSecret(file, generate); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("keep secret: %w", err)
	}
	text, err = os.ReadFile(file)
	return strings.TrimSpace(string(text)), errs.Doing("read secret", err)
}

// writeSecret makes the file whole or not at all: written and synced next to it, then linked to its name.
func writeSecret(file string, generate func() (string, error)) error {
	text, err := generate()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".secret-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(text + "\n")
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Link(tmp.Name(), file)
}

// GenerateSigningKey makes a value for JWT_SIGNING_KEYS.
func GenerateSigningKey() (string, error) { return supplierauth.GenerateSigningKey() }

// GenerateSecretsKey makes a value for SECRETS_KEY.
func GenerateSecretsKey() (string, error) { return supplierauth.GenerateSecretsKey() }

// GenerateWebhookSecret makes a value for WEBHOOK_SIGNING_SECRETS.
func GenerateWebhookSecret() (string, error) { return webhook.NewSecret().Text(), nil }

// Environment returns the process environment as pairs. White space around a value, such as the last newline of a file
// that it came from, is not part of it.
func Environment() map[string]string {
	pairs := map[string]string{}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		pairs[name] = strings.TrimSpace(value)
	}
	return pairs
}

// Configure loads the configuration and makes the logger that it asks for. The error lists every bad value.
func Configure(environ map[string]string, role config.Role, logs io.Writer) (*config.Config, *slog.Logger, error) {
	cfg, err := config.Load(environ, role, rules()...)
	if err != nil {
		return nil, nil, err
	}
	out, ok := logs.(*terminal.Writer)
	log := telemetry.NewLogger(logs, cfg.LogFormat, cfg.LogLevel, ok && out.IsTerminal())
	for _, warning := range config.Misspelled(environ) {
		log.Warn("a variable's name is not known", "error", warning)
	}
	return cfg, log, nil
}

// rules returns the checks that config leaves to other packages.
func rules() []config.Rule {
	return []config.Rule{
		{Variable: "DATABASE_URL", Check: database.CheckURL},
		{Variable: "DATABASE_READ_URL", Check: database.CheckURL},
		{Variable: "TRACKER_DATABASE_URL", Check: database.CheckURL},
		{Variable: "JWT_SIGNING_KEYS", Check: supplierauth.CheckSigningKeys},
		{Variable: "SECRETS_KEY", Check: supplierauth.CheckSecretsKeys},
	}
}

// ownURL returns where this machine reaches an api that listens on hostPort.
func ownURL(hostPort string) string {
	u := url.URL{Scheme: "http", Host: reachable(hostPort, loopback)}
	return u.String()
}

// Version names this build.
func Version() string { return telemetry.Version() }
