package database

import (
	"context"
	"hash/fnv"

	"gorm.io/gorm"
)

// A transaction travels in the context. InTx begins it; each store asks SQL or From for "the transaction in ctx" and
// so joins it without knowing of it. A call inside an InTx that uses an outer context leaves the transaction: on
// SQLite it waits for the one writing connection until its deadline, on PostgreSQL it silently commits by itself, and
// the tests of the embedded stack find it.
//
// The end has three kinds, not two. When COMMIT gets no answer the rows are stored or they are not, and this process
// cannot know: functions given to AfterTx must then be right in both cases.

// txKey is the context key of this DB's transaction; a context may carry two databases'.
type txKey struct{ db *DB }

// carriedTx is what the context carries of the open transaction.
type carriedTx struct {
	tx   *gorm.DB
	ends *[]func(End)
}

// End is how a transaction ended.
type End int

// The ends of a transaction.
const (
	Committed  End = iota
	RolledBack     // nothing of it is stored
	Unknown        // COMMIT got no answer: all of it is stored, or nothing
)

// InTx runs fn in a transaction that every store joins through its context; an error or a panic rolls it back.
// Inside another InTx it is a savepoint. No network call belongs in fn. The name says what the transaction does; the
// fault tests cut the connection around the COMMIT of each name.
func (d *DB) InTx(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	return d.inTx(ctx, d.From(ctx), name, fn)
}

// inTx is InTx on a given connection.
func (d *DB) inTx(ctx context.Context, on *gorm.DB, name string, fn func(ctx context.Context) error) error {
	outer, nested := ctx.Value(txKey{d}).(carriedTx)
	var ends []func(End)
	end := RolledBack
	defer func() { // also after a panic
		if nested && end == Committed {
			*outer.ends = append(*outer.ends, ends...)
			return
		}
		for _, call := range ends {
			call(end)
		}
	}()
	var lost error // COMMIT's answer
	err := naming(ctx, on, name).Transaction(func(tx *gorm.DB) error {
		err := fn(context.WithValue(ctx, txKey{d}, carriedTx{tx, &ends}))
		if err == nil {
			end = Unknown // until COMMIT is answered
			err, lost = failing(name, nested)
		}
		return err
	})
	if err == nil {
		err = lost
	}
	if err == nil {
		end = Committed
	}
	if end == Unknown {
		d.log.WarnContext(ctx, "a COMMIT got no answer", "transaction", name, "error", Translate(err))
	}
	return d.refusals.note(ctx, err)
}

// AfterTx calls fn once, with the end of the transaction in ctx. fn must not block. Without a transaction it is
// called at once.
func (d *DB) AfterTx(ctx context.Context, fn func(End)) {
	if t, open := ctx.Value(txKey{d}).(carriedTx); open {
		*t.ends = append(*t.ends, fn)
		return
	}
	fn(Committed)
}

// TryLock reports whether the transaction in ctx holds the lock of that name, which no other process then gets before
// the transaction ends. SQLite has one writer, who always holds it.
func (d *DB) TryLock(ctx context.Context, name string) (held bool, err error) {
	if d.engine != Postgres {
		return true, nil
	}
	_, err = One(ctx, d.SQL(ctx), `SELECT pg_try_advisory_xact_lock($1)`, []any{lockNumber(name)}, &held)
	return held, err
}

// ShareLock waits until nothing holds the lock of that name, and keeps TryLock from it until the transaction in ctx
// ends.
func (d *DB) ShareLock(ctx context.Context, name string) error {
	if d.engine != Postgres {
		return nil
	}
	_, err := Exec(ctx, d.SQL(ctx), `SELECT pg_advisory_xact_lock_shared($1)`, lockNumber(name))
	return err
}

// lockNumber returns the number of a lock. No other program on the server uses it.
func lockNumber(name string) int64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte("supplyhub " + name))
	return int64(hash.Sum64())
}
