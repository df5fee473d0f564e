package database

import (
	"log/slog"
	"time"

	"gorm.io/gorm/logger"
)

// quietLogger reports slow statements only, and never a bound value: those hold secrets' hashes and suppliers' data.
func quietLogger(log *slog.Logger) logger.Interface {
	return logger.NewSlogLogger(log, logger.Config{
		SlowThreshold:             time.Second,
		LogLevel:                  logger.Warn,
		IgnoreRecordNotFoundError: true,
		ParameterizedQueries:      true,
	})
}
