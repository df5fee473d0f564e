package work

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// ticketRow is work that has a new ticket.
type ticketRow struct {
	round.Round
	ticket int64
}

func (r *ticketRow) places() []any {
	return []any{&r.SupplierID, &r.RequestID, &r.UID, &r.Number, &r.ticket}
}

// requeue assigns a new ticket to requests whose ticket is below the given one, the lowest first, or that are due to be
// tried again, and returns them.
func (s *store) requeue(ctx context.Context, below int64, now time.Time, limit int) (
	rows []materials.Queued, err error) {
	for _, due := range []struct {
		column string
		bound  int64
	}{{"ticket", below}, {"retry_at", now.UnixMicro()}} {
		found, err := s.requeueBy(ctx, due.column, due.bound, limit-len(rows))
		if err != nil {
			return nil, fmt.Errorf("queue requests again: %w", err)
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

// firstWaiting returns the work that comes first, by a ticket or because it is to be tried again by now.
func (s *store) firstWaiting(ctx context.Context, now time.Time) (first headOfWork, err error) {
	for column, found := range map[string]*int64{"ticket": &first.ticket, "retry_at": &first.retryAt} {
		_, err := database.One(ctx, s.db.ReaderSQL(ctx), `SELECT `+column+` FROM material_requests
			WHERE `+column+` IS NOT NULL ORDER BY `+column+` LIMIT 1`, nil, found)
		if err != nil {
			return first, fmt.Errorf("look for work that waits: %w", err)
		}
	}
	if first.retryAt > now.UnixMicro() {
		first.retryAt = 0
	}
	return first, nil
}

// requeueBy is requeue by one of the two indexed columns. On one PostgreSQL, all rows are chosen, locked and numbered by
// one statement, and rows that another process has locked are left to it. Elsewhere the rows are chosen without locks,
// and each is taken if it is still to be: SQLite has one writer, and of several servers none can lock with the others.
func (s *store) requeueBy(ctx context.Context, column string, bound int64, limit int) ([]materials.Queued, error) {
	if limit <= 0 {
		return nil, nil
	}
	choose := `SELECT supplier_id, id FROM material_requests WHERE ` + column + ` < $1 ORDER BY ` + column + ` LIMIT $2`
	if s.db.Engine() == database.Postgres && !s.db.Spread() {
		rows, err := database.Query(ctx, s.db.SQL(ctx), `UPDATE material_requests r
			SET ticket = nextval('request_numbers'), retry_at = NULL
			FROM (`+choose+` FOR UPDATE SKIP LOCKED) AS due
			WHERE r.supplier_id = due.supplier_id AND r.id = due.id
			RETURNING r.supplier_id, r.id, r.uid, r.round, r.ticket`, []any{bound, limit}, (*ticketRow).places)
		return queued(rows), err
	}
	chosen, err := database.Query(ctx, s.db.SQL(ctx), choose, []any{bound, limit},
		func(r *ticketRow) []any { return []any{&r.SupplierID, &r.RequestID} })
	if err != nil {
		return nil, err
	}
	var taken []ticketRow
	for _, row := range chosen {
		ticket, err := s.db.Numbers(ctx, 1)
		if err != nil {
			return nil, err
		}
		rows, err := database.Query(ctx, s.db.SQL(ctx), `UPDATE material_requests SET ticket = $1, retry_at = NULL
			WHERE supplier_id = $2 AND id = $3 AND `+column+` < $4 RETURNING supplier_id, id, uid, round, ticket`,
			[]any{ticket, row.SupplierID, row.RequestID, bound}, (*ticketRow).places)
		if err != nil {
			return nil, err
		}
		taken = append(taken, rows...)
	}
	return queued(taken), nil
}

func queued(rows []ticketRow) []materials.Queued {
	list := make([]materials.Queued, len(rows))
	for i, row := range rows {
		list[i] = materials.Queued{Round: row.Round, Ticket: row.ticket}
	}
	return list
}
