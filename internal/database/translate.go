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

// fault is what an engine's error means for the caller.
type fault int

const (
	ofStatement fault = iota // the statement's own, or a defect
	unreached                // the engine does not answer, or not in time
	unstored                 // it answers and cannot take a change: it has no room, or may not write
	passing                  // two transactions were in each other's way: once more it may succeed
)

// Translate turns an engine that cannot be reached, or cannot take a change, into errs.Unavailable, a text that it
// cannot hold, so that nothing has it, into errs.Invalid, and leaves every other error as it is.
func Translate(err error) error {
	if err == nil || errs.KindOf(err) != errs.Internal {
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == codeNotText {
		return errs.New(errs.Invalid, "A text in it holds a NUL or is not UTF-8.")
	}
	switch faultOf(err) {
	case unreached:
		return errs.NewUnavailable("The database cannot be reached.", retryAfter, err)
	case unstored:
		return errs.NewUnavailable("The database takes no changes at the moment.", retryAfter, err)
	case passing:
		busy := errs.NewUnavailable("The database had to break this off. Try it once more.", time.Second, err)
		busy.Passing = true
		return busy
	default:
		return err
	}
}

func faultOf(err error) fault {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return faultOfPostgres(pg.Code)
	}
	if lite, ok := errors.AsType[liteError](err); ok {
		return faultOfSQLite(lite.Code())
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return unreached
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return unreached
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "conn closed") {
		return unreached
	}
	return ofStatement
}

// faultOfPostgres reads an SQLSTATE.
func faultOfPostgres(code string) fault {
	switch code {
	case codeDiskFull, codeIOError:
		return unstored
	case "40001", "40P01": // serialization failure, deadlock
		return passing
	case codeReadOnly, // by then its connections are given up, and Ping looks for it
		codeQueryCancel, "55P03", "25P03", "25P04": // timeouts: statement, lock, idle transaction, transaction
		return unreached
	}
	for _, class := range []string{"08", "53", "57P", "58"} { // connection, resources, shutdown, the server's system
		if strings.HasPrefix(code, class) {
			return unreached
		}
	}
	return ofStatement
}

// liteError is an error of SQLite's driver, which this package does not link.
type liteError interface {
	error
	Code() int // SQLite's result code, maybe an extended one
}

// SQLite's result codes without what extends them.
const (
	liteBusy       = 5
	liteLocked     = 6
	liteNoMemory   = 7
	liteReadOnly   = 8
	liteIOError    = 10
	liteCorrupt    = 11
	liteFull       = 13
	liteCantOpen   = 14
	liteProtocol   = 15 // locks were taken and lost too often
	liteNoDatabase = 26
	litePrimary    = 0xff
)

func faultOfSQLite(code int) fault {
	switch code & litePrimary {
	case liteReadOnly, liteIOError, liteFull, liteCantOpen:
		return unstored
	case liteBusy, liteLocked, liteNoMemory, liteProtocol:
		return unreached
	default:
		return ofStatement
	}
}

// translatePlugin puts Translate behind every statement that goes through gorm, and notes changes that fail.
func translatePlugin(db *gorm.DB, refusals *refusals) error {
	translate := func(tx *gorm.DB) {
		if tx.Error != nil {
			tx.Error = refusals.note(tx.Statement.Context, tx.Error)
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
