package databasetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
)

// Freeze leaves what a process leaves that is stopped, or cut off, after the statement of a transaction: its locks.
// They are held until release, or the end of the test; the server does not end them as it does a real one's.
func Freeze(tb testing.TB, db *database.DB, statement string, args ...any) (release func()) {
	tb.Helper()
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = db.InTx(context.Background(), "frozen", func(ctx context.Context) error {
			defer close(held)
			var err error
			if db.Engine() == database.Postgres {
				_, err = database.Exec(ctx, db.SQL(ctx), `SET LOCAL idle_in_transaction_session_timeout = 0`)
			}
			if err == nil {
				_, err = database.Exec(ctx, db.SQL(ctx), statement, args...)
			}
			if err != nil {
				tb.Error(err)
				return err
			}
			held <- struct{}{}
			<-free
			return errors.New("rolled back")
		})
	}()
	<-held
	release = sync.OnceFunc(func() { close(free); <-done })
	tb.Cleanup(release)
	return release
}
