package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/notice"
)

// Notices are only ever added by other transactions, and taken here: no two of those wait for each other. An event that
// is attempted belongs to the process whose number of attempts it has: another one's deletion or delay by an older
// number changes nothing.

// store is the notices and the events that they become.
type store struct{ db *database.DB }

// add stores a notice in the transaction in ctx.
func (s store) add(ctx context.Context, n notice.Notice, now time.Time) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `
		INSERT INTO operator_notices (type, supplier_id, subject, paused_by, error, at) VALUES ($1, $2, $3, $4, $5, $6)`,
		n.Type, n.SupplierID, n.Subject, n.PausedBy, n.Error, now.UnixMicro())
	return err
}

// anyNotice reports whether there is something to gather.
func (s store) anyNotice(ctx context.Context) (waiting bool, err error) {
	_, err = database.One(ctx, s.db.ReaderSQL(ctx), `SELECT EXISTS (SELECT 1 FROM operator_notices)`, nil, &waiting)
	return waiting, errs.Doing("look for operator notices", err)
}

// take deletes the oldest notices and returns them, oldest first.
func (s store) take(ctx context.Context, limit int) ([]stored, error) {
	notices, err := database.Query(ctx, s.db.SQL(ctx), `DELETE FROM operator_notices
		WHERE `+s.db.Chosen("id", `SELECT id FROM operator_notices ORDER BY id LIMIT $1`)+`
		RETURNING id, type, supplier_id, subject, paused_by, error, at`, []any{limit}, func(r *stored) []any {
		return []any{&r.id, &r.Type, &r.SupplierID, &r.Subject, &r.PausedBy, &r.Error, &r.micros}
	})
	slices.SortFunc(notices, func(a, b stored) int {
		return cmp.Or(cmp.Compare(a.micros, b.micros), cmp.Compare(a.id, b.id))
	})
	for i := range notices {
		notices[i].at = time.UnixMicro(notices[i].micros).UTC()
	}
	return notices, errs.Doing("take operator notices", err)
}

// eventColumns are the columns that eventRow reads, in its order.
const eventColumns = `id, type, supplier_id, supplier_name, paused_by, count, ids, last_error, at, due_at, attempts`

// eventRow is an event as it is stored.
type eventRow struct {
	event
	idsText   string
	made, due int64
}

// places returns where database.Query reads eventColumns to.
func (r *eventRow) places() []any {
	return []any{&r.id, &r.kind, &r.supplierID, &r.supplierName, &r.pausedBy, &r.count, &r.idsText, &r.lastError,
		&r.made, &r.due, &r.attempts}
}

// queryEvents reads the rows of a statement of eventColumns.
func (s store) queryEvents(ctx context.Context, statement string, args ...any) ([]*event, error) {
	rows, err := database.Query(ctx, s.db.SQL(ctx), statement, args, (*eventRow).places)
	if err != nil {
		return nil, err
	}
	events := make([]*event, len(rows))
	for i := range rows {
		r := &rows[i]
		r.event.at, r.event.due = time.UnixMicro(r.made).UTC(), time.UnixMicro(r.due).UTC()
		if err := json.Unmarshal([]byte(r.idsText), &r.ids); err != nil {
			return nil, fmt.Errorf("decode operator event %s: %w", r.id, err)
		}
		events[i] = &r.event
	}
	return events, nil
}

// openEvents returns the ones that may take more in, the newest of each key last: for a second after its minute one is
// there with the next. One that is attempted meanwhile is not saved any more.
func (s store) openEvents(ctx context.Context, now time.Time) ([]*event, error) {
	events, err := s.queryEvents(ctx, `SELECT `+eventColumns+` FROM operator_events
		WHERE due_at > $1 AND attempts = 0 AND type IN ($2, $3) ORDER BY at`+s.db.RowLock(` FOR UPDATE`),
		now.UnixMicro(), notice.DeliveryDead, notice.RequestFailed)
	return events, errs.Doing("read open operator events", err)
}

// save stores what gathering has made: fresh events, and those that took something in.
func (s store) save(ctx context.Context, changed map[*event]bool) error {
	for e := range changed {
		ids, _ := json.Marshal(append([]string{}, e.ids...)) // of strings: it never fails
		_, err := database.Exec(ctx, s.db.SQL(ctx), `INSERT INTO operator_events (`+eventColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0) ON CONFLICT (id) DO UPDATE
			SET count = excluded.count, ids = excluded.ids, last_error = excluded.last_error`,
			e.id, e.kind, e.supplierID, e.supplierName, e.pausedBy, e.count, string(ids), e.lastError,
			e.at.UnixMicro(), e.due.UnixMicro())
		if err != nil {
			return fmt.Errorf("store operator event: %w", err)
		}
	}
	return nil
}

// claim begins an attempt for each of some due events.
func (s store) claim(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]*event, error) {
	events, err := s.queryEvents(ctx, `UPDATE operator_events SET attempts = attempts + 1, due_at = $1
		WHERE `+s.db.Chosen("id", `SELECT id FROM operator_events WHERE due_at <= $2 ORDER BY due_at LIMIT $3`+
		s.db.RowLock(` FOR UPDATE SKIP LOCKED`))+` RETURNING `+eventColumns,
		now.Add(lease).UnixMicro(), now.UnixMicro(), limit)
	return events, errs.Doing("begin to send operator events", err)
}

// forget and putOff change nothing when another process attempts the event meanwhile.

// forget deletes an event that was taken.
func (s store) forget(ctx context.Context, e *event) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `DELETE FROM operator_events WHERE id = $1 AND attempts = $2`, e.id,
		e.attempts)
	return err
}

// putOff lets an event be attempted again at the given time.
func (s store) putOff(ctx context.Context, e *event, until time.Time) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE operator_events SET due_at = $1 WHERE id = $2 AND attempts = $3`,
		until.UnixMicro(), e.id, e.attempts)
	return err
}
