package database_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// liteError is an error as SQLite's driver has it.
type liteError int

func (e liteError) Error() string { return fmt.Sprintf("result code %d", int(e)) }
func (e liteError) Code() int     { return int(e) }

func TestTranslate_distinguishes_what_passes_from_faults_of_ours(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind  errs.Kind
		fails bool // repeated at once it fails the same
		of    []error
	}{
		"the engine is away, full or may not write": {errs.Unavailable, true, []error{
			state("08006"), state("08P01"), state("25006"), state("25P03"), state("53000"), state("53100"), state("53200"),
			state("53300"), state("53400"), state("57014"), state("57P01"), state("57P02"), state("57P03"),
			state("57P04"), state("58000"), state("58030"), context.DeadlineExceeded,
			liteError(5), liteError(5 | 2<<8), liteError(6), liteError(6 | 1<<8), liteError(7), liteError(8),
			liteError(8 | 1<<8),
			liteError(10), liteError(10 | 3<<8), liteError(10 | 4<<8), liteError(13), liteError(14), liteError(15),
		}},
		"transactions are in each other's way": {errs.Unavailable, false,
			[]error{state("40001"), state("40P01"), state("55P03")}},
		"a statement is wrong, or a file damaged": {errs.Internal, false, []error{
			state("23505"), state("42601"), state("42501"), state("XX001"), liteError(1), liteError(11), liteError(19),
			liteError(26), errors.New("of no engine"),
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, cause := range test.of {
				err := database.Translate(fmt.Errorf("insert: %w", cause))
				if errs.KindOf(err) != test.kind || errs.IsUnavailable(err) != test.fails || !errors.Is(err, cause) {
					t.Errorf("%v is of kind %d, unavailable %t", err, errs.KindOf(err), errs.IsUnavailable(err))
				}
				if e, ok := errors.AsType[*errs.Error](err); ok && e.RetryAfter < time.Second {
					t.Errorf("%v: retry after %v", err, e.RetryAfter)
				}
			}
		})
	}
}

func TestDefective_is_what_a_repair_of_the_database_helps(t *testing.T) {
	t.Parallel()
	for defective, causes := range map[bool][]error{
		true: {state("42501"), state("42P01"), state("XX001"), state("XX002"), state("23514"), state("0A000"),
			liteError(1), liteError(11), liteError(26)},
		false: {state("22003"), state("22P02"), state("23505"), state("54000"),
			&pgconn.PgError{Severity: "ERROR", Code: "23514", ConstraintName: "material_requests_uid_check"},
			liteError(18), liteError(19), liteError(19 | 5<<8), liteError(20), liteError(25), errors.New("of no engine"), nil},
	} {
		for _, cause := range causes {
			if database.Defective(errs.Doing("insert", cause)) != defective {
				t.Errorf("%v: not %t", cause, defective)
			}
		}
	}
}

func state(code string) error { return &pgconn.PgError{Severity: "ERROR", Code: code} }

// withoutRoom lets the database take no row more, and with room again.
var withoutRoom = map[database.Engine]struct{ without, with string }{
	database.SQLite: {`VACUUM; PRAGMA max_page_count = 1`, `PRAGMA max_page_count = 1000000`},
	database.Postgres: {`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
		CREATE TRIGGER full_disk BEFORE INSERT ON figures FOR EACH ROW EXECUTE FUNCTION full_disk()`,
		`DROP TRIGGER full_disk ON figures`},
}

func TestChange_without_room_is_unavailable_and_Ping_says_so_until_there_is_room(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx, room := t.Context(), withoutRoom[db.Engine()]
		if err := errors.Join(db.TryChange(ctx), db.Ping(ctx)); err != nil {
			t.Fatalf("with room: %v", err)
		}
		if _, err := db.SQL(ctx).ExecContext(ctx, room.without); err != nil {
			t.Fatal(err)
		}
		if err := db.Ping(ctx); err != nil {
			t.Errorf("nothing has failed yet: %v", err)
		}
		for _, change := range []struct {
			name string
			try  func() error
		}{
			{"a transaction", func() error {
				return db.InTx(ctx, "test", func(ctx context.Context) error {
					_, err := db.SQL(ctx).ExecContext(ctx, fillFigures)
					return err
				})
			}},
			{"a statement", func() error { return db.From(ctx).Exec(fillFigures).Error }},
			{"the doctor's", func() error { return db.TryChange(ctx) }},
			{"a ping", func() error { return db.Ping(ctx) }},
		} {
			if err := change.try(); errs.KindOf(err) != errs.Unavailable ||
				!strings.Contains(err.Error(), "takes no changes") {
				t.Errorf("%s: %v", change.name, err)
			}
		}
		if _, err := db.SQL(ctx).ExecContext(ctx, room.with); err != nil {
			t.Fatal(err)
		}
		if err := db.TryChange(ctx); err != nil {
			t.Errorf("with room again: %v", err)
		}
		wait.Until(t, "the database is well again by itself", func() bool { return db.Ping(ctx) == nil })
		var left int
		if err := db.From(ctx).Raw(`SELECT count(*) FROM figures`).Scan(&left).Error; err != nil || left != 0 {
			t.Errorf("%d rows are left, %v", left, err)
		}
	})
}

// fillFigures needs pages.
const fillFigures = `WITH RECURSIVE steps (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM steps WHERE n < 1000)
	INSERT INTO figures (step, process, accepted, delivered) SELECT n, 1, 0, 0 FROM steps`

func TestChange_that_another_process_keeps_from_its_lock_is_unavailable(t *testing.T) {
	t.Parallel()
	path := databasetest.SQLite(t)
	db, other := databasetest.OpenURL(t, "", path), databasetest.OpenURL(t, "", path)
	err := other.InTx(t.Context(), "test", func(context.Context) error {
		err := db.From(t.Context()).Exec(fillFigures).Error // after SQLite's own patience
		if errs.KindOf(err) != errs.Unavailable {
			t.Errorf("%v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.TryChange(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestChange_of_a_file_that_may_not_be_written_is_unavailable(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	exec(t.Context(), t, db, `PRAGMA query_only = 1`)
	if err := db.TryChange(t.Context()); errs.KindOf(err) != errs.Unavailable {
		t.Errorf("%v", err)
	}
	exec(t.Context(), t, db, `PRAGMA query_only = 0`)
	wait.Until(t, "the database is well again by itself", func() bool { return db.Ping(t.Context()) == nil })
}
