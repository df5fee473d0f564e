package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

// postgresConnections is the pool's size when the address does not say pool_max_conns.
const postgresConnections = 16

func openPostgres(ctx context.Context, url string, log *slog.Logger) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// pgx's text may quote the address with its password.
		return nil, errors.New("open database: DATABASE_URL is not a valid PostgreSQL address")
	}
	cfg.MaxConns = max(cfg.MaxConns, postgresConnections)
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	setDefault(cfg.ConnConfig.RuntimeParams, "application_name", "supplyhub")
	setDefault(cfg.ConnConfig.RuntimeParams, "idle_in_transaction_session_timeout", "60s")
	setDefault(cfg.ConnConfig.RuntimeParams, "statement_timeout", "30s")
	setDefault(cfg.ConnConfig.RuntimeParams, "jit", "off") // no statement of ours runs long enough to earn it back
	// The hot statements look rows up by key; the default, meant for spinning disks, reads whole tables instead.
	setDefault(cfg.ConnConfig.RuntimeParams, "random_page_cost", "1.1")
	// Plans are made once a connection, as making them costs as much as the hot statements themselves. One that was made
	// over an empty table must be right when the table is full: by index, row by row.
	for _, name := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin"} {
		setDefault(cfg.ConnConfig.RuntimeParams, name, "off")
	}
	setDefault(cfg.ConnConfig.RuntimeParams, "plan_cache_mode", "force_generic_plan")
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	sqlDB := stdlib.OpenDBFromPool(pool)
	g, err := openGorm(postgres.New(postgres.Config{Conn: sqlDB}), log)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open database: %w", Translate(err))
	}
	closeAll := func() error {
		err := sqlDB.Close()
		pool.Close()
		return err
	}
	return &DB{engine: Postgres, write: g, read: g, pool: sqlDB, close: closeAll, log: log}, nil
}

func setDefault(params map[string]string, name, value string) {
	if _, set := params[name]; !set {
		params[name] = value
	}
}

func openGorm(dialector gorm.Dialector, log *slog.Logger) (*gorm.DB, error) {
	g, err := gorm.Open(dialector, &gorm.Config{
		SkipDefaultTransaction: true,
		TranslateError:         true,
		DisableAutomaticPing:   true,
		Logger:                 quietLogger(log),
	})
	if err != nil {
		return nil, err
	}
	return g, translatePlugin(g)
}
