package database_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// A process is lost when it says nothing more, in the middle of a transaction.
func TestRow_that_a_lost_process_holds_is_waited_for_a_bounded_time_and_is_free_soon(t *testing.T) {
	t.Parallel()
	for name, address := range roads() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := databasetest.Postgres(t)
			other := raw(t, url, "")
			exec(t.Context(), t, other, `INSERT INTO settings (key, value, updated_at) VALUES ('held', '', 1)`)
			lost, held, end := raw(t, address(t, url), ""), make(chan struct{}), make(chan struct{})
			ended := make(chan error)
			go func() {
				ended <- lost.InTx(context.Background(), "lost", func(ctx context.Context) error {
					_, err := database.Exec(ctx, lost.SQL(ctx), `UPDATE settings SET value = 'lost' WHERE key = 'held'`)
					close(held)
					<-end
					return err
				})
			}()
			<-held
			change := func() error {
				_, err := database.Exec(t.Context(), other.SQL(t.Context()), `UPDATE settings SET value = 'x' WHERE key = 'held'`)
				return err
			}
			if err := change(); !errs.IsPassing(err) {
				t.Errorf("a change while it is held: %v", err)
			}
			wait.Until(t, "it is free although the lost process says nothing", func() bool { return change() == nil })
			close(end)
			if err := <-ended; errs.KindOf(err) != errs.Unavailable {
				t.Errorf("the lost process commits: %v", err)
			}
		})
	}
}

// Readers lock what they read: its owner's TRUNCATE waits for them.
func TestTable_that_a_lost_process_reads_is_free_soon(t *testing.T) {
	t.Parallel()
	for name, address := range roads() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := databasetest.Postgres(t)
			owner := raw(t, url, "")
			rows := raw(t, address(t, url), "").Rows(time.Minute)
			t.Cleanup(rows.Close)
			reads, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
			go func() {
				ended <- rows.Isolated(context.Background(), func(read database.Select) error {
					nothing := func([][]byte) error { return nil }
					err := read(context.Background(), `SELECT 1 FROM settings`, nothing)
					close(reads)
					<-end
					return errors.Join(err, read(context.Background(), `SELECT 1 FROM settings`, nothing))
				})
			}()
			<-reads
			truncate := func() error {
				_, err := database.Exec(t.Context(), owner.SQL(t.Context()), `TRUNCATE settings`)
				return err
			}
			if err := truncate(); !errs.IsPassing(err) {
				t.Errorf("while it is read: %v", err)
			}
			wait.Until(t, "it is free although the lost process says nothing", func() bool { return truncate() == nil })
			close(end)
			if err := <-ended; errs.KindOf(err) != errs.Unavailable {
				t.Errorf("the lost process reads on: %v", err)
			}
		})
	}
}

func TestReaders_have_the_limit_of_a_lost_process_or_the_address_s_own(t *testing.T) {
	t.Parallel()
	for name, address := range roads() {
		for given, want := range map[string]string{"": "3s", "&idle_in_transaction_session_timeout=7s": "7s"} {
			t.Run(name+given, func(t *testing.T) {
				t.Parallel()
				rows := raw(t, address(t, databasetest.Postgres(t))+given, "").Rows(time.Minute)
				t.Cleanup(rows.Close)
				const limit = `SELECT current_setting('idle_in_transaction_session_timeout')`
				is := func(fields [][]byte) error {
					if got := string(fields[0]); got != want {
						t.Errorf("it is %s, want %s", got, want)
					}
					return nil
				}
				if err := rows.Select(t.Context(), limit, is); err != nil {
					t.Error(err)
				}
				ofOthers := func(read database.Select) error { return read(t.Context(), limit, is) }
				if err := rows.Isolated(t.Context(), ofOthers); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
