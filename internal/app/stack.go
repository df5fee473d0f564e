package app

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/queue"
)

// The whole difference between the embedded default and production stands in this file.

func openDatabase(ctx context.Context, cfg *config.Config, log *slog.Logger) (*database.DB, error) {
	return database.Open(ctx, string(cfg.DatabaseURL), cfg.SQLitePath(), log)
}

func (a *App) openQueue(ctx context.Context, role string) (err error) {
	a.queue, err = queue.Open(ctx, queue.Config{
		Name: role, URL: string(a.cfg.NATSURL), Creds: a.cfg.NATSCreds, Replicas: a.cfg.NATSReplicas,
		Dir: filepath.Join(a.cfg.DataDir, "nats"), Log: a.log, Registerer: a.registry,
	})
	return err
}
