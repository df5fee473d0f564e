//go:build !faults

package database

import (
	"context"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
)

// machineTime returns what the machine's own clock says, without its monotonic part.
func machineTime() time.Time { return time.Now().Round(0).UTC() }

// naming lets a COMMIT tell its transaction's name, in builds for tests alone.
func naming(_ context.Context, on *gorm.DB, _ string) *gorm.DB { return on }

// nextVersion returns the migration of a version to come, in builds for tests alone.
func nextVersion(fs.FS) []goose.ProviderOption { return nil }

// commitOf returns the statement that commits; empty: the driver's own.
func commitOf(context.Context) string { return "" }

// failing returns no error: only builds for tests make a COMMIT fail, before or after it is made.
func failing(string, bool) (before, after error) { return nil, nil }
