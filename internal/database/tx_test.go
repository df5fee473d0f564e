package database_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func TestAfterTx_is_called_once_with_the_end_of_the_transaction(t *testing.T) {
	t.Parallel()
	undo := errors.New("undo")
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		var ends []database.End
		note := func(end database.End) { ends = append(ends, end) }
		expect := func(what string, want ...database.End) {
			t.Helper()
			if diff := cmp.Diff(want, ends); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
			ends = nil
		}
		db.AfterTx(t.Context(), note)
		expect("without a transaction", database.Committed)
		for _, failure := range []error{nil, undo} {
			err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
				db.AfterTx(ctx, note)
				if len(ends) > 0 {
					t.Error("called before the end")
				}
				return failure
			})
			if !errors.Is(err, failure) {
				t.Fatal(err)
			}
			expect("of one", map[error]database.End{nil: database.Committed, undo: database.RolledBack}[failure])
		}
		_ = db.InTx(t.Context(), "test", func(ctx context.Context) error {
			_ = db.InTx(ctx, "test", func(ctx context.Context) error { db.AfterTx(ctx, note); return undo })
			expect("of a savepoint that is rolled back", database.RolledBack)
			_ = db.InTx(ctx, "test", func(ctx context.Context) error { db.AfterTx(ctx, note); return nil })
			if len(ends) > 0 {
				t.Error("a savepoint's end is none")
			}
			return undo
		})
		expect("of a savepoint whose transaction is rolled back", database.RolledBack)
		func() {
			defer func() { _ = recover() }()
			_ = db.InTx(t.Context(), "test", func(ctx context.Context) error { db.AfterTx(ctx, note); panic("on purpose") })
		}()
		expect("of one that panics", database.RolledBack)
	})
}

func TestTryLock_is_held_by_one_transaction_at_a_time(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
		first, err := db.TryLock(ctx, "x")
		if err != nil || !first {
			t.Errorf("the first: %t, %v", first, err)
		}
		return db.InTx(t.Context(), "test", func(other context.Context) error { // another connection
			second, err := db.TryLock(other, "x")
			if err != nil || second {
				t.Errorf("the second: %t, %v", second, err)
			}
			another, err := db.TryLock(other, "y")
			if err != nil || !another {
				t.Errorf("another lock: %t, %v", another, err)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
