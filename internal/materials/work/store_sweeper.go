package work

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

type ticketRow struct {
	SupplierID             string
	ID, UID, Round, Ticket int64
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
		err := s.db.Reader(ctx).Raw(`SELECT ` + column + ` FROM material_requests WHERE ` + column + ` IS NOT NULL
			ORDER BY ` + column + ` LIMIT 1`).Scan(found).Error
		if err != nil {
			return first, fmt.Errorf("look for work that waits: %w", database.Translate(err))
		}
	}
	if first.retryAt > now.UnixMicro() {
		first.retryAt = 0
	}
	return first, nil
}

// requeueBy is requeue by one of the two indexed columns.
func (s *store) requeueBy(ctx context.Context, column string, bound int64, limit int) ([]materials.Queued, error) {
	if limit <= 0 {
		return nil, nil
	}
	choose := `SELECT supplier_id, id FROM material_requests WHERE ` + column + ` < ? ORDER BY ` + column + ` LIMIT ?`
	if s.db.Spread() {
		return s.requeueSpread(ctx, choose, column, bound, limit)
	}
	if s.db.Engine() == database.Postgres {
		var rows []ticketRow
		err := s.db.From(ctx).Raw(`UPDATE material_requests r SET ticket = nextval('request_numbers'), retry_at = NULL
			FROM (`+choose+` FOR UPDATE SKIP LOCKED) AS due
			WHERE r.supplier_id = due.supplier_id AND r.id = due.id
			RETURNING r.supplier_id, r.id, r.uid, r.round, r.ticket`, bound, limit).Scan(&rows).Error
		return queuedRows(rows), err
	}
	var keys []ticketRow
	if err := s.db.From(ctx).Raw(choose, bound, limit).Scan(&keys).Error; err != nil || len(keys) == 0 {
		return nil, err
	}
	ticket, err := s.db.Numbers(ctx, len(keys))
	if err != nil {
		return nil, err
	}
	rows := make([]ticketRow, len(keys))
	for i, key := range keys {
		err := s.db.From(ctx).Raw(`UPDATE material_requests SET ticket = ?, retry_at = NULL WHERE supplier_id = ? AND id = ?
			RETURNING supplier_id, id, uid, round, ticket`, ticket+int64(i), key.SupplierID, key.ID).Scan(&rows[i]).Error
		if err != nil {
			return nil, err
		}
	}
	return queuedRows(rows), nil
}

func queuedRows(rows []ticketRow) []materials.Queued {
	list := make([]materials.Queued, len(rows))
	for i, row := range rows {
		list[i] = materials.Queued{Round: round.Round{SupplierID: row.SupplierID, RequestID: row.ID, UID: row.UID,
			Number: row.Round}, Ticket: row.Ticket}
	}
	return list
}
