package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
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

// Where the secrets come from. In production the configuration has them, the same for all processes. With the embedded
// database the first start makes the missing ones and keeps them in DATA_DIR, so it needs no configuration. Only their
// owner can read the files. A command makes none.

// The secret files in DATA_DIR. None may be lost or shown.
const (
	signingKeysFile   = "jwt_signing_keys"
	secretsKeyFile    = "secrets_key"
	webhooksFile      = "webhook_signing_secrets"
	operatorTokenFile = "operator_token"
)

// secrets are the service's own secrets, from the configuration or from DATA_DIR.
type secrets struct {
	signingKeys string
	secretsKeys string
	webhooks    []webhook.Secret
	operator    string
}

// loadSecrets returns the configured secrets. With the embedded database it makes the missing ones once, in DATA_DIR;
// with asItIs it makes none and leaves them empty.
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

// keptSecret reads the secret in file, or makes it. If two processes start at once, one writes it and both read it.
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

// writeSecret makes the file whole or not at all: it writes and syncs a temporary file next to it, then links the name.
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

// GenerateWebhookSecret makes a value for WEBHOOK_SIGNING_SECRETS.
func GenerateWebhookSecret() (string, error) { return webhook.NewSecret().Text(), nil }

// Environment returns the process environment as pairs. It trims white space around a value: a value that was read from
// a file may end with a newline.
func Environment() map[string]string {
	pairs := map[string]string{}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		pairs[name] = strings.TrimSpace(value)
	}
	return pairs
}

// Configure loads the configuration and makes its logger. The error lists every bad value.
func Configure(environ map[string]string, role config.Role, logs io.Writer) (*config.Config, *slog.Logger, error) {
	cfg, err := config.Load(environ, role, rules()...)
	if err != nil {
		return nil, nil, err
	}
	out, ok := logs.(*terminal.Writer)
	log := telemetry.NewLogger(logs, cfg.LogFormat, cfg.LogLevel, ok && out.IsTerminal())
	slog.SetLogLoggerLevel(slog.LevelDebug) // what libraries print by themselves, such as a receiver's stray bytes
	slog.SetDefault(log)
	for _, warning := range config.Misspelled(environ) {
		log.Warn("unknown variable in the environment", "error", warning)
	}
	return cfg, log, nil
}

// rules returns the checks of values whose form only other packages know.
func rules() []config.Rule {
	return []config.Rule{
		{Variable: "DATABASE_URL", Check: database.CheckURL},
		{Variable: "DATABASE_READ_URL", Check: database.CheckURL},
		{Variable: "TRACKER_DATABASE_URL", Check: database.CheckURL},
		{Variable: "JWT_SIGNING_KEYS", Check: supplierauth.CheckSigningKeys},
		{Variable: "SECRETS_KEY", Check: supplierauth.CheckSecretsKeys},
	}
}

// Version names this build.
func Version() string { return telemetry.Version() }
