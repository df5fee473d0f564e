package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/queue"
)

// The stacks differ here in the database and the queue that are opened, in secrets.go in who makes the keys, and in
// serve.go in where the worker runs.

// use is what an App is built for.
type use struct {
	profile   database.Profile
	role      string // of a process whose spans are exported; empty: nothing is traced
	noReaders bool   // it lists no trackers
	asItIs    bool   // nothing is made that is not there
}

// openDatabase opens PostgreSQL where DATABASE_URL is set, and otherwise the file in DATA_DIR.
func openDatabase(ctx context.Context, cfg *config.Config, log *slog.Logger, u use) (*database.DB, error) {
	return database.Open(ctx, database.Config{
		URL: string(cfg.DatabaseURL), ReadURL: string(cfg.ReadURL), OthersURL: string(cfg.TrackerURL),
		Path:    cfg.SQLitePath(),
		Profile: u.profile, NoReaders: u.noReaders, Log: log,
	})
}

// openQueue opens the queue, inside the process when NATS_URL is empty.
func (a *pipeline) openQueue(ctx context.Context, role string) (err error) {
	cfg := a.queueConfig(role)
	if cfg.Installation, err = a.db.Installation(ctx); err != nil {
		return err
	}
	if a.queue, err = queue.Open(ctx, cfg); err != nil && a.cfg.NATSURL == "" {
		return fmt.Errorf("DATA_DIR (%s): %w", a.cfg.DataDir, err)
	}
	return err
}

// queueConfig returns the queue's configuration for a role.
func (a *pipeline) queueConfig(role string) queue.Config {
	return queue.Config{
		Name: role, URL: string(a.cfg.NATSURL), Creds: a.cfg.NATSCreds, NKey: a.cfg.NATSNKey, CA: a.cfg.NATSCA,
		Cert: a.cfg.NATSCert, Key: a.cfg.NATSKey, Stream: a.cfg.NATSStream, MaxBytes: a.cfg.NATSMaxBytes,
		Replicas: a.cfg.NATSReplicas,
		Dir:      filepath.Join(a.cfg.DataDir, "nats"), Log: a.log, Registerer: a.registry,
	}
}
