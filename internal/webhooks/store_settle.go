package webhooks

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
)

// partitioned are the tables that are in partitions.
var partitioned = [...]string{"webhook_deliveries", "webhook_events", "webhook_attempts"}

// leaseSettling reports whether the partition is this process's to settle.
func (s *store) leaseSettling(ctx context.Context, p round.Partition, now time.Time) (held bool, err error) {
	err = s.db.From(ctx).Raw(`SELECT settle_webhook_partition(?, ?, ?)`, p.First, now.UnixMicro(),
		now.Add(settlingLease).UnixMicro()).Scan(&held).Error
	return held, err
}

// settling renews the lease, or ends it.
func (s *store) settling(ctx context.Context, p round.Partition, until time.Time) error {
	return s.db.From(ctx).Exec(`UPDATE webhook_partitions SET settling_until = ? WHERE name = ?`, until.UnixMicro(),
		p.Name).Error
}

func (s *store) settled(ctx context.Context, p round.Partition, now time.Time) error {
	return s.db.From(ctx).Exec(`UPDATE webhook_partitions SET settled_at = ?, settling_until = NULL WHERE name = ?`,
		now.UnixMicro(), p.Name).Error
}

// settle vacuums the partition's tables and makes their indexes anew, beside who writes to them. It reports false where
// the role may not.
func (s *store) settle(ctx context.Context, p round.Partition, renew func() error) (here bool, err error) {
	return s.upkeep(ctx, p, func(conn *sql.Conn) error {
		for _, parent := range partitioned {
			table := parent + "_" + p.Name
			statements, err := leftovers(ctx, conn, table)
			if err != nil {
				return err
			}
			statements = append(statements, vacuum(table, true), `REINDEX TABLE CONCURRENTLY "`+table+`"`)
			for _, statement := range statements {
				if err := renew(); err != nil {
					return err
				}
				if _, err := conn.ExecContext(ctx, statement); err != nil {
					return fmt.Errorf("%s: %w", statement, err)
				}
			}
		}
		return nil
	})
}

// vacuum leaves pages at the end, which only a lock that keeps others out gives back.
func vacuum(table string, freeze bool) string {
	return fmt.Sprintf(`VACUUM (FREEZE %t, TRUNCATE false) "%s"`, freeze, table)
}

// leftovers returns the statements that drop what a REINDEX that was cut off has left: every write would go on filling
// it.
func leftovers(ctx context.Context, conn *sql.Conn, table string) (drops []string, err error) {
	return database.Query(ctx, conn, `SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %s', indexrelid::regclass)
		FROM pg_index JOIN pg_class ON oid = indexrelid
		WHERE indrelid = to_regclass($1) AND NOT indisvalid AND relname ~ '_cc(new|old)[0-9]*$'`,
		[]any{table}, func(drop *string) []any { return []any{drop} })
}

// upkeep hands fn a connection for what only the tables' owner may.
func (s *store) upkeep(ctx context.Context, p round.Partition, fn func(*sql.Conn) error) (bool, error) {
	var owner bool
	err := s.db.From(ctx).Raw(`SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(?)`,
		partitioned[0]+"_"+p.Name).Scan(&owner).Error
	if err != nil || !owner {
		return false, err
	}
	return s.db.Upkeep(ctx, fn)
}

// visible has the deliveries of a partition that was never settled vacuumed, so that counting them reads an index
// alone. To freeze them too would wait for every reader of one of their pages.
func (s *store) visible(ctx context.Context, p round.Partition) error {
	_, err := s.upkeep(ctx, p, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, vacuum(partitioned[0]+"_"+p.Name, false))
		return err
	})
	return err
}
