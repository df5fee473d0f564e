package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/supplyhub/supplyhub/internal/errs"
)

const (
	slowStatement = time.Second
	unavailableAt = time.Minute // how often it is said that the database is unavailable
)

// statements logs statements that fail or are slow, and never a bound value: those hold secrets' hashes and suppliers'
// data. A statement whose caller hung up has not failed, and while the database is unavailable one line a minute says
// so.
type statements struct {
	log *slog.Logger

	mu    sync.Mutex
	quiet time.Time // until then nothing is said of an unavailable database
}

// LogMode is gorm's way of changing the level, which the log's own level decides.
func (s *statements) LogMode(logger.LogLevel) logger.Interface { return s }

// Info logs what gorm itself says.
func (s *statements) Info(ctx context.Context, text string, args ...any) {
	s.log.InfoContext(ctx, fmt.Sprintf(text, args...))
}

// Warn logs what gorm itself says.
func (s *statements) Warn(ctx context.Context, text string, args ...any) {
	s.log.WarnContext(ctx, fmt.Sprintf(text, args...))
}

// Error logs what gorm itself says.
func (s *statements) Error(ctx context.Context, text string, args ...any) {
	s.log.ErrorContext(ctx, fmt.Sprintf(text, args...))
}

// ParamsFilter keeps the values out of the statement that Trace is given.
func (s *statements) ParamsFilter(_ context.Context, sql string, _ ...any) (string, []any) {
	return sql, nil
}

// Trace is called after each statement.
func (s *statements) Trace(ctx context.Context, begin time.Time, statement func() (string, int64), err error) {
	took := time.Since(begin)
	failed := err != nil && !errors.Is(err, gorm.ErrRecordNotFound)
	switch {
	case !failed && took < slowStatement, errors.Is(ctx.Err(), context.Canceled), errors.Is(err, context.Canceled):
	case !failed:
		sql, rows := statement()
		s.log.WarnContext(ctx, "slow statement", "statement", sql, "rows", rows, "duration", took)
	case errs.KindOf(Translate(err)) == errs.Unavailable:
		if s.sayUnavailable() {
			s.log.WarnContext(ctx, "the database is unavailable", "error", err.Error())
		}
	default:
		sql, _ := statement()
		s.log.ErrorContext(ctx, "a statement failed", "statement", sql, "duration", took, "error", err.Error())
	}
}

// sayUnavailable reports whether it is time to say it again.
func (s *statements) sayUnavailable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.quiet) {
		return false
	}
	s.quiet = now.Add(unavailableAt)
	return true
}
