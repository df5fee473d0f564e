package app

import (
	"io"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// Environment returns the process environment as pairs.
func Environment() map[string]string {
	pairs := map[string]string{}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		pairs[name] = value
	}
	return pairs
}

// Configure loads the configuration and makes the logger that it asks for. The error lists every bad value.
func Configure(environ map[string]string, role config.Role, logs io.Writer) (*config.Config, *slog.Logger, error) {
	cfg, err := config.Load(environ, role, rules()...)
	if err != nil {
		return nil, nil, err
	}
	return cfg, telemetry.NewLogger(logs, cfg.LogFormat, cfg.LogLevel, terminal(logs)), nil
}

// rules returns the forms that config leaves to the packages that know them.
func rules() []config.Rule {
	return []config.Rule{
		{Variable: "DATABASE_URL", Check: database.CheckURL},
		{Variable: "DATABASE_READ_URL", Check: database.CheckURL},
		{Variable: "JWT_SIGNING_KEYS", Check: supplierauth.CheckSigningKeys},
		{Variable: "SECRETS_KEY", Check: supplierauth.CheckSecretsKeys},
	}
}

func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// ownAddress returns where this process reaches itself when it listens on addr.
func ownAddress(addr net.Addr) string { return ownURL(addr.String()) }

// ownURL returns the loopback address of an api on this machine that listens on hostPort.
func ownURL(hostPort string) string {
	_, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return ""
	}
	return "http://" + net.JoinHostPort("127.0.0.1", port)
}

// Version names this build.
func Version() string { return telemetry.Version() }
