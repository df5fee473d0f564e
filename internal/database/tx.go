package database

import (
	"context"

	"gorm.io/gorm"
)

type txKey struct{ db *DB }

// InTx runs fn in a transaction that every store joins through its context; an error or a panic rolls it back.
// Inside another InTx it is a savepoint. No network call belongs in fn.
func (d *DB) InTx(ctx context.Context, fn func(ctx context.Context) error) error {
	err := d.From(ctx).Transaction(func(tx *gorm.DB) error {
		return fn(context.WithValue(ctx, txKey{d}, tx))
	})
	return Translate(err)
}
