package figures

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/database"
)

type store struct{ db *database.DB }

// row is a step of one process, or of all.
type row struct {
	Step, Process, Accepted, Delivered, Backlog, OldestMs, Dead, Failing int64
}

// add adds to the counts of the process's step and replaces what it read.
func (s store) add(ctx context.Context, r row) error {
	err := s.db.From(ctx).Exec(`INSERT INTO figures (step, process, accepted, delivered, backlog, oldest_ms, dead, failing)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (step, process) DO UPDATE SET accepted = figures.accepted + excluded.accepted,
			delivered = figures.delivered + excluded.delivered, backlog = excluded.backlog,
			oldest_ms = excluded.oldest_ms, dead = excluded.dead, failing = excluded.failing`,
		r.Step, r.Process, r.Accepted, r.Delivered, r.Backlog, r.OldestMs, r.Dead, r.Failing).Error
	if err != nil {
		return fmt.Errorf("keep figures: %w", database.Translate(err))
	}
	return nil
}

// trim deletes the steps up to the given one.
func (s store) trim(ctx context.Context, step int64) error {
	if err := s.db.From(ctx).Exec(`DELETE FROM figures WHERE step <= ?`, step).Error; err != nil {
		return fmt.Errorf("trim figures: %w", database.Translate(err))
	}
	return nil
}

// since sums the processes up, from the given step on.
func (s store) since(ctx context.Context, step int64) ([]row, error) {
	var rows []row
	err := s.db.Reader(ctx).Raw(`SELECT step, sum(accepted) AS accepted, sum(delivered) AS delivered,
			max(backlog) AS backlog, max(oldest_ms) AS oldest_ms, max(dead) AS dead, max(failing) AS failing
		FROM figures WHERE step >= ? GROUP BY step`, step).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read figures: %w", database.Translate(err))
	}
	return rows, nil
}
