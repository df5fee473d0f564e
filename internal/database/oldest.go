package database

import (
	"context"
	"fmt"
)

// OldestPostgres is the oldest server that the service is tested with.
const OldestPostgres = 14

// Untested reports whether a version of PostgreSQL, as the server writes it, is older than that.
func Untested(version string) bool {
	var major int
	_, err := fmt.Sscanf(version, "%d", &major)
	return err == nil && major < OldestPostgres
}

// warnUntested logs when the server is older than promised. It goes on: most of the service works there.
func (d *DB) warnUntested(ctx context.Context) {
	var version string
	err := d.pool.QueryRowContext(ctx, `SELECT current_setting('server_version')`).Scan(&version)
	if err == nil && Untested(version) {
		d.log.WarnContext(ctx, "the service is not tested with a PostgreSQL as old as this", "version", version, "oldest",
			OldestPostgres)
	}
}
