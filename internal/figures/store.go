package figures

import (
	"context"

	"github.com/supplyhub/supplyhub/internal/database"
)

type store struct{ db *database.DB }

// row is a step of all processes.
type row struct {
	step, accepted, delivered                          int64
	enqueued, oldestUs, pending, dead, failing, paused int64
}

// add adds to what the process has of the step.
func (s store) add(ctx context.Context, step, process int64, did Sample) error {
	_, err := s.db.SQL(ctx).ExecContext(ctx, `INSERT INTO figures (step, process, accepted, delivered)
		VALUES ($1, $2, $3, $4)
		ON CONFLICT (step, process) DO UPDATE SET accepted = figures.accepted + excluded.accepted,
			delivered = figures.delivered + excluded.delivered`, step, process, did.Accepted, did.Delivered)
	return wrapped("keep figures", err)
}

// trim deletes the steps up to the given one.
func (s store) trim(ctx context.Context, step int64) error {
	_, err := s.db.SQL(ctx).ExecContext(ctx, `DELETE FROM figures WHERE step <= $1`, step)
	return wrapped("trim figures", err)
}

// since sums the processes up, from the given step on, and adds what was counted.
func (s store) since(ctx context.Context, step int64) ([]row, error) {
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT step, CAST(sum(accepted) AS bigint),
			CAST(sum(delivered) AS bigint), CAST(sum(enqueued) AS bigint), CAST(sum(oldest_us) AS bigint),
			CAST(sum(pending) AS bigint), CAST(sum(dead) AS bigint), CAST(sum(failing) AS bigint), CAST(sum(paused) AS bigint)
		FROM (SELECT step, accepted, delivered, 0 AS enqueued, 0 AS oldest_us, 0 AS pending, 0 AS dead, 0 AS failing,
				0 AS paused FROM figures WHERE step >= $1
			UNION ALL SELECT step, 0, 0, enqueued, oldest_us, pending, dead, failing, paused
				FROM gauges WHERE step >= $1) AS parts
		GROUP BY step`, []any{step}, func(r *row) []any {
		return []any{&r.step, &r.accepted, &r.delivered, &r.enqueued, &r.oldestUs, &r.pending, &r.dead, &r.failing,
			&r.paused}
	})
	return rows, wrapped("read figures", err)
}
