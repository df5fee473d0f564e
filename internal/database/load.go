package database

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"
)

// Loading a file of records takes minutes and must hold nothing up. On PostgreSQL the rows stream through COPY into
// the transaction that fn has opened. SQLite has one writer, so rows go into a temporary table first, which locks
// nothing, and one short transaction moves them. A fault anywhere, or a process that dies, leaves the table as it
// was.

const loadBuffer = 64 * 1024 // bytes of COPY that are made ahead

// Source gives one row after the other, each field as text and nil for NULL, and io.EOF at the end. The row may be
// changed by the next call.
type Source func() ([][]byte, error)

// Load streams rows into a table within one transaction that stores join through fn's context: fn calls store, once,
// where the rows are to be stored, and gets their number. Nothing is stored when anything fails. There is no statement
// timeout. PostgreSQL copies them; on SQLite they are put aside first, so that other processes can write meanwhile.
func (d *DB) Load(ctx context.Context, table string, columns []string, next Source,
	fn func(ctx context.Context, store func() (int64, error)) error) error {
	ctx = ForMaintenance(ctx) // while rows come the server says nothing, however long that is
	err := d.write.WithContext(ctx).Connection(func(g *gorm.DB) error {
		conn, ok := g.Statement.ConnPool.(*sql.Conn)
		if !ok {
			return errors.New("no connection of its own")
		}
		if d.engine == SQLite {
			return d.loadSQLite(ctx, g, conn, table, columns, next, fn)
		}
		return d.inTx(ctx, g, "load records", func(ctx context.Context) error {
			return fn(ctx, func() (int64, error) { return copyRows(ctx, conn, table, columns, next) })
		})
	})
	return Translate(err)
}

// copyRows streams the source through COPY on the transaction's own connection. A fault of the source ends the COPY,
// and its error wins over the server's, which only repeats it.
func copyRows(ctx context.Context, on *sql.Conn, table string, columns []string, next Source) (
	count int64, err error) {
	statement := fmt.Sprintf("COPY %s (%s) FROM STDIN", pgx.Identifier{table}.Sanitize(), strings.Join(columns, ", "))
	var fault error
	err = on.Raw(func(driver any) error {
		own := driver.(*conn).Conn.Conn() //nolint:forcetypeassert // the pool's connector makes no other
		reader, writer := io.Pipe()
		var rows sync.WaitGroup
		rows.Go(func() {
			fault = writeRows(writer, next)
			_ = writer.CloseWithError(fault) // never fails
		})
		tag, err := own.PgConn().CopyFrom(ctx, reader, statement)
		_ = reader.CloseWithError(io.ErrClosedPipe) // the same
		rows.Wait()
		count = tag.RowsAffected()
		return err
	})
	if fault != nil && !errors.Is(fault, io.ErrClosedPipe) {
		return 0, fault
	}
	return count, err
}

// writeRows writes the source's rows in COPY's text format: nil is \N, and what would end a field is escaped.
func writeRows(w io.Writer, next Source) error {
	buffered := bufio.NewWriterSize(w, loadBuffer) // its first error is Flush's
	text := strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)
	for {
		fields, err := next()
		if errors.Is(err, io.EOF) {
			return buffered.Flush()
		}
		if err != nil {
			return err
		}
		for i, field := range fields {
			if i > 0 {
				_ = buffered.WriteByte('\t')
			}
			if field == nil {
				_, _ = buffered.WriteString(`\N`)
			} else if _, err := text.WriteString(buffered, string(field)); err != nil {
				return err
			}
		}
		_ = buffered.WriteByte('\n')
	}
}

// loadSQLite fills a temporary table without a lock on the database and moves its rows in one short transaction.
func (d *DB) loadSQLite(ctx context.Context, g *gorm.DB, conn *sql.Conn, table string, columns []string, next Source,
	fn func(context.Context, func() (int64, error)) error,
) (err error) {
	names := strings.Join(columns, ", ")
	if _, err := conn.ExecContext(ctx, "CREATE TEMP TABLE load_rows ("+names+")"); err != nil {
		return err
	}
	defer func() {
		_, dropped := conn.ExecContext(context.WithoutCancel(ctx), "DROP TABLE temp.load_rows")
		err = errors.Join(err, dropped)
	}()
	if err := putAside(ctx, conn, len(columns), next); err != nil {
		return err
	}
	return d.inTx(ctx, g, "load records", func(ctx context.Context) error {
		return fn(ctx, func() (int64, error) {
			return Exec(ctx, d.SQL(ctx), "INSERT INTO main."+table+" ("+names+") SELECT "+names+
				" FROM temp.load_rows ORDER BY rowid")
		})
	})
}

// putAside inserts all rows into the temporary table in one transaction of that table alone.
func putAside(ctx context.Context, conn *sql.Conn, columns int, next Source) error {
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil { // takes no lock until the database itself is touched
		return err
	}
	if err := insertAside(ctx, conn, columns, next); err != nil {
		_, undone := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, undone)
	}
	_, err := conn.ExecContext(ctx, "COMMIT")
	return err
}

// insertAside inserts the rows one by one.
func insertAside(ctx context.Context, conn *sql.Conn, columns int, next Source) error {
	insert, err := conn.PrepareContext(ctx,
		"INSERT INTO temp.load_rows VALUES "+Places(1, columns)) //nolint:gosec // places alone
	if err != nil {
		return err
	}
	defer insert.Close()
	values := make([]any, columns)
	for {
		fields, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i, field := range fields {
			if values[i] = nil; field != nil {
				values[i] = string(field)
			}
		}
		if _, err := insert.ExecContext(ctx, values...); err != nil {
			return err
		}
	}
}
