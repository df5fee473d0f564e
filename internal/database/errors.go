package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// An engine's errors, and what follows for a caller: an unreached engine and one that takes no changes are
// errs.Unavailable (503 with Retry-After, and the queue brings work back); two transactions in each other's way are
// too, with a second to wait; everything else is a defect. A change that found no room is remembered besides: Ping,
// and so /readyz, then fails until a change of about the same size could be made and taken back.

// retryAfter is the Retry-After of an answer while the database is unavailable.
const retryAfter = 5 * time.Second

// codeLocked is PostgreSQL's answer to a statement that has waited for a lock for lock_timeout.
const codeLocked = "55P03"

// codeNotText is PostgreSQL's answer to a text that holds a NUL or is not UTF-8.
const codeNotText = "22021"

// codeCheck is PostgreSQL's answer to a row that breaks a check, or belongs to no partition.
const codeCheck = "23514"

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
		return errs.New(errs.Invalid, "A string contains NUL or is not valid UTF-8.")
	}
	switch faultOf(err) {
	case unreached:
		return errs.NewUnavailable("The database cannot be reached.", retryAfter, eachOnce{err})
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

// eachOnce is an error that says nothing twice: pgx names an address once with TLS and once without. If the address was
// reached without TLS, it leaves out that the server refused TLS.
type eachOnce struct{ error }

func (e eachOnce) Unwrap() error { return e.error }

func (e eachOnce) Error() string {
	lines := slices.Compact(strings.Split(e.error.Error(), "\n"))
	if reached := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return strings.Contains(line, "server refused TLS connection")
	}); len(reached) > 1 {
		lines = reached
	}
	return strings.Replace(strings.Join(lines, "\n"), ":\n\t", ": ", 1)
}

// faultOf finds what an error of either driver, of the network or of a context means. An error that it does not know
// is the statement's own: it is not repeated, and becomes a 500.
func faultOf(err error) fault {
	// Before the server's own code: whatever it says to one that connects, such as XX000 where its disk is full, no
	// statement was made.
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return unreached
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return faultOfPostgres(pg.Code)
	}
	if lite, ok := errors.AsType[liteError](err); ok {
		return faultOfSQLite(lite.Code())
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return unreached
	}
	if errors.Is(err, errHangs) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded) ||
		strings.Contains(err.Error(), "conn closed") {
		return unreached
	}
	return ofStatement
}

// faultOfPostgres reads an SQLSTATE.
func faultOfPostgres(code string) fault {
	switch code {
	case codeDiskFull, codeIOError:
		return unstored
	case "40001", "40P01", codeLocked: // serialization failure, deadlock, lock timeout
		return passing
	case codeReadOnly, // by then its connections are given up, and Ping looks for it
		codeQueryCancel, "25P03", "25P04": // timeouts: statement, idle transaction, transaction
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
	liteTooBig     = 18
	liteConstraint = 19
	liteMismatch   = 20
	liteRange      = 25
	liteNoDatabase = 26
	litePrimary    = 0xff
)

// faultOfSQLite reads a result code, without its extension.
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

// Defective reports whether an engine refused a statement for something else than its values: a right, a table or a
// partition is missing, or a file is damaged. Once that is repaired, the same statement succeeds.
func Defective(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		ofValues := slices.Contains([]string{"22", "23", "54"}, pg.Code[:min(2, len(pg.Code))])
		return !ofValues || pg.Code == codeCheck && pg.ConstraintName == "" // the row belongs to no partition
	}
	lite, ok := errors.AsType[liteError](err)
	return ok && !slices.Contains([]int{liteTooBig, liteConstraint, liteMismatch, liteRange}, lite.Code()&litePrimary)
}

// SavingDialector is gorm's words for an engine, with its savepoints.
type SavingDialector interface {
	gorm.Dialector
	gorm.SavePointerDialectorInterface
}

// translating puts Translate behind every statement that goes through gorm, and notes changes that fail.
type translating struct {
	SavingDialector
	refusals *refusals
}

// Translate implements gorm.ErrorTranslator.
func (t translating) Translate(err error) error { return t.refusals.note(context.Background(), err) }

// refusedFor is how long after a change that could not be stored the database counts as one that takes none: a small
// change may still find room where a larger one does not.
const refusedFor = 5 * time.Second

// refusals is why the engine, which answers, could not store a change lately: its disk is full, or it may not write.
type refusals struct {
	log *slog.Logger

	// mu guards what follows. Every statement that could not be stored writes it, Ping reads and clears it.
	mu  sync.Mutex
	err error // nil: nothing failed
	at  time.Time
}

// note translates an error and keeps it when it says that a change could not be stored. The log's handler lets one such
// line a minute through.
func (r *refusals) note(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	unable := faultOf(err) == unstored
	if err = Translate(err); !unable {
		return err
	}
	r.mu.Lock()
	r.err, r.at = err, time.Now()
	r.mu.Unlock()
	r.log.WarnContext(ctx, "the database takes no changes", "error", err)
	return err
}

// failed reports whether the last change that was tried could not be stored.
func (r *refusals) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// stored notes that a change was stored. It returns why another could not be a moment ago.
func (r *refusals) stored(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < refusedFor {
		return r.err
	}
	if r.err != nil {
		r.log.InfoContext(ctx, "the database takes changes again")
	}
	r.err = nil
	return nil
}

// TryChange writes rows and takes them back in one transaction, which no other one sees: some pages of them, as one
// row may find room where a disk is full. Every role may write and delete in their table.
func (d *DB) TryChange(ctx context.Context) error {
	const rows = 1000
	process := rand.Int64() // two who try at once do not wait for each other's keys
	err := d.write.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		own := Pool{tx.Statement.ConnPool, d}
		_, err := Exec(ctx, own, `WITH RECURSIVE steps (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM steps WHERE n < $1)
			INSERT INTO figures (step, process, accepted, delivered)
			SELECT -n, CAST($2 AS bigint), 0, 0 FROM steps`, rows, process)
		if err != nil {
			return err
		}
		_, err = Exec(ctx, own, `DELETE FROM figures WHERE step < 0 AND process = $1`, process)
		return err
	})
	return errs.Doing("write rows and take them back", d.refusals.note(ctx, err))
}
