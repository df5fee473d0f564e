package deliveries

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// deliveryRow is a delivery as webhook_deliveries keeps it, its last attempt with it.
type deliveryRow struct {
	Delivery
	series, nextAttemptAt int64

	lastStartedAt, lastDurationUs *int64
	lastError                     string
	lastResponse                  []byte
	lastURL                       *string

	resentAt     *int64
	endedBecause *string
}

// delivery returns the row as the operator sees it.
func (r deliveryRow) delivery() Delivery {
	d := r.Delivery
	if r.Status == Pending && r.worker == nil {
		d.NextAttempt = new(time.UnixMicro(r.nextAttemptAt).UTC())
	}
	if r.Status == Delivered && r.resentAt != nil {
		d.sentAgain = new(time.UnixMicro(*r.resentAt).UTC())
	}
	switch {
	case r.endedBecause != nil: // its last attempt keeps its own
		d.LastError = r.endedBecause
	case r.lastError != "" && r.LastStatus == nil: // an answer's probable cause is the attempt's
		d.LastError = &r.lastError
	}
	return d
}

// rowColumns are what a list shows of a delivery.
const rowColumns = `id, uid, round, worker, destination, supplier_id, request_id, status, attempts, series,
	next_attempt_at,
	created_at, updated_at, last_started_at, last_duration_us, last_status, last_error, resent_at,
	ended_because`

func (r *deliveryRow) places() []any {
	return []any{&r.ID, &r.uid, &r.Round, &r.worker, &r.Destination, &r.SupplierID, &r.RequestID, &r.Status,
		&r.AttemptCount, &r.series, &r.nextAttemptAt, scanTime{&r.CreatedAt}, scanTime{&r.UpdatedAt}, &r.lastStartedAt,
		&r.lastDurationUs, &r.LastStatus, &r.lastError, &r.resentAt, &r.endedBecause}
}

// byID reads the deliveries of those ids that there are.
func (s *store) byID(ctx context.Context, ids []string) ([]deliveryRow, error) {
	return database.Query(ctx, s.DB.ReaderSQL(ctx), `SELECT `+rowColumns+` FROM webhook_deliveries
		WHERE `+s.DB.AnyOf("id", 1), []any{s.DB.Values(ids)}, (*deliveryRow).places)
}

// lockByID holds those of the deliveries that no worker has until the transaction ends.
//
// A transaction locks rows that others lock too in this order, so that two wait for each other instead of
// deadlocking: 1. deliveries, by supplier and id; 2. requests, by supplier and id; 3. receivers, by supplier (MarkDue).
// A claim locks the deliveries that are free (SKIP LOCKED); no transaction waits for a delivery that a worker holds.
// Rows that others may insert as well (events, requests, receivers) are inserted in the order of their keys.
func (s *store) lockByID(ctx context.Context, ids []string) ([]Delivery, error) {
	if s.DB.Spread() {
		return s.lockSpread(ctx, ids)
	}
	return s.lockOf(ctx, nil, ids)
}

// lockOf is lockByID; suppliers are empty, or one where suppliers are on several servers.
func (s *store) lockOf(ctx context.Context, suppliers, ids []string) ([]Delivery, error) {
	args, of := []any{s.DB.Values(ids)}, s.DB.Of(suppliers, `supplier_id`, `$2`)
	if of != "" {
		args = append(args, suppliers)
	}
	rows, err := database.Query(ctx, s.DB.SQL(ctx), `SELECT `+rowColumns+` FROM webhook_deliveries
		WHERE worker IS NULL AND `+s.DB.AnyOf("id", 1)+of+` ORDER BY supplier_id, id`+s.DB.RowLock(` FOR UPDATE`), args,
		(*deliveryRow).places)
	return ofRows(rows), errs.Doing("read webhook deliveries", err)
}

// known returns which of the ids are those of deliveries, those that a worker has among them: lockByID leaves these
// out.
func (s *store) known(ctx context.Context, ids []string) (map[string]bool, error) {
	found, err := database.Column[string](ctx, s.DB.ReaderSQL(ctx),
		`SELECT id FROM webhook_deliveries WHERE `+s.DB.AnyOf("id", 1),
		s.DB.Values(ids))
	return database.Set(found), errs.Doing("look for webhook deliveries", err)
}

func ofRows(rows []deliveryRow) []Delivery { return lists.Of(rows, deliveryRow.delivery) }

// again sends locked deliveries again: of one that is pending the next attempt is due now, any other begins a whole new
// series of attempts. It comes last in its transaction.
func (s *store) again(ctx context.Context, found []Delivery, now time.Time) error {
	ids, due := []string{}, []string{}
	for _, delivery := range found {
		due = append(due, delivery.Destination)
		if delivery.NextAttempt == nil || delivery.NextAttempt.After(now) {
			ids = append(ids, delivery.ID)
		}
	}
	if err := s.reopen(ctx, ids, now); err != nil {
		return err
	}
	return (&DueStore{s.Tables}).DueNow(ctx, due, now)
}

// reopen makes those of the deliveries wait that no worker has (h). It shares the lock without which no partition is
// dropped, so that none of them goes with its table before the COMMIT. A pending delivery keeps its series, and when it
// became due if it is due already: it keeps its turn among the others. Its updated_at is when it was made due, as
// SetBack reads it; without an attempt it is from when retention counts, and stays.
func (s *store) reopen(ctx context.Context, ids []string, now time.Time) error {
	if err := s.DB.ShareLock(ctx, redeliveries); err != nil {
		return fmt.Errorf("reopen webhook deliveries: %w", err)
	}
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_deliveries SET status = 'pending',
			series = CASE status WHEN 'pending' THEN series ELSE 0 END,
			next_attempt_at = CASE WHEN status = 'pending' AND next_attempt_at < $1 THEN next_attempt_at ELSE $1 END,
			updated_at = CASE WHEN status = 'pending' AND series = 0 THEN updated_at ELSE $1 END, ended_because = NULL,
			resent_at = CASE status WHEN 'delivered' THEN $1 ELSE resent_at END
		WHERE worker IS NULL AND `+s.DB.AnyOf("id", 2), now.UnixMicro(), s.DB.Values(ids))
	return errs.Doing("reopen webhook deliveries", err)
}

// attemptRow is an attempt as webhook_attempts keeps it.
type attemptRow struct {
	Number     int64
	StartedAt  int64
	DurationUs *int64
	Status     *int
	Error      string
	Response   []byte
	URL        *string
}

// attempt returns the row as the operator sees it. One without an end that is not under way was interrupted (f).
func (r attemptRow) attempt(underWay bool) Attempt {
	a := Attempt{
		Number: r.Number, Time: time.UnixMicro(r.StartedAt).UTC(), URL: r.URL, Status: r.Status,
		Response: strings.ToValidUTF8(string(r.Response), "\uFFFD"),
	}
	switch {
	case r.Error != "":
		a.Error = &r.Error
	case r.DurationUs == nil && !underWay:
		a.Error = new(interrupted)
	}
	if r.DurationUs != nil {
		a.DurationMS = new(*r.DurationUs / 1000)
	}
	return a
}

// attempts reports whether a worker makes the attempt right now.
func (r deliveryRow) attempts(a attemptRow) bool {
	return r.worker != nil && a.Number == r.AttemptCount
}

// whole reads a delivery with its last answer; nil when there is none of that id.
func (s *store) whole(ctx context.Context, id string) (*deliveryRow, error) {
	var r deliveryRow
	found, err := database.One(ctx, s.DB.ReaderSQL(ctx), `SELECT `+rowColumns+`, last_response, last_url
		FROM webhook_deliveries WHERE id = $1`, []any{id}, append(r.places(), &r.lastResponse, &r.lastURL)...)
	if err != nil || !found {
		return nil, errs.Doing("read webhook delivery", err)
	}
	return &r, nil
}

// attemptsOf reads so many attempts behind a number, of a delivery that was read before, oldest first. An attempt that
// began since is not among them: its number is greater than those of the row that was read.
func (s *store) attemptsOf(ctx context.Context, d deliveryRow, after, n int64) ([]attemptRow, error) {
	rows, err := database.Query(ctx, s.DB.ReaderSQL(ctx), `SELECT number, started_at, duration_us, status, error, response,
		url FROM webhook_attempts WHERE delivery_id = $1 AND number < $2 AND number > $3 AND number <= $4 ORDER BY number`,
		[]any{d.ID, d.AttemptCount, after, after + n},
		func(r *attemptRow) []any {
			return []any{&r.Number, &r.StartedAt, &r.DurationUs, &r.Status, &r.Error, &r.Response, &r.URL}
		})
	if d.lastStartedAt != nil && d.AttemptCount > after && d.AttemptCount <= after+n {
		rows = append(rows, d.last())
	}
	return rows, errs.Doing("read webhook attempts", err)
}
