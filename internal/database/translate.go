package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// retryAfter is the Retry-After of an answer while the database is unavailable.
const retryAfter = 5 * time.Second

// codeNotText is PostgreSQL's answer to a text that holds a NUL or is not UTF-8.
const codeNotText = "22021"

// Translate turns an engine that cannot be reached into errs.Unavailable, a text that it cannot hold, so that nothing
// has it, into errs.Invalid, and leaves every other error as it is.
func Translate(err error) error {
	if err == nil || errs.KindOf(err) != errs.Internal {
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == codeNotText {
		return errs.New(errs.Invalid, "A text in it holds a NUL or is not UTF-8.")
	}
	if !isUnavailable(err) {
		return err
	}
	return errs.NewUnavailable("The database cannot be reached.", retryAfter, err)
}

func isUnavailable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refusedByServer(pg.Code)
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "conn closed")
}

// refusedByServer reports whether the SQLSTATE is of a server that is starting, stopping, full, out of resources or
// read-only.
func refusedByServer(code string) bool {
	switch {
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "53"), strings.HasPrefix(code, "57P"),
		code == codeReadOnly:
		return true
	default:
		return false
	}
}

// translatePlugin puts Translate behind every statement that goes through gorm.
func translatePlugin(db *gorm.DB) error {
	translate := func(tx *gorm.DB) {
		if tx.Error != nil {
			tx.Error = Translate(tx.Error)
		}
	}
	for _, register := range []func(string, func(*gorm.DB)) error{
		db.Callback().Create().After("*").Register, db.Callback().Query().After("*").Register,
		db.Callback().Update().After("*").Register, db.Callback().Delete().After("*").Register,
		db.Callback().Row().After("*").Register, db.Callback().Raw().After("*").Register,
	} {
		if err := register("supplyhub:translate", translate); err != nil {
			return err
		}
	}
	return nil
}
