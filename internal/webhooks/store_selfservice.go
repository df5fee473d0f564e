package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// recoverBatch is how many deliveries one transaction of a recovery sends again.
const recoverBatch = 1000

// statuses are all of them: what is listed whatever its status is merged from these.
var statuses = []Status{Pending, Delivered, Dead, Failed}

// Lists returns the lists whose rows are counted: the deliveries to a supplier's receiver.
func Lists() []database.List { return []database.List{sentList} }

var sentList = database.List{Name: "deliveries", At: "created_at",
	Rows: func(s database.Series) (string, []any) {
		from := `webhook_deliveries WHERE ` + toReceiver + ` AND status `
		if s.Status == "" {
			return from + `IN ('pending', 'delivered', 'dead', 'failed')`, []any{s.Owner}
		}
		return from + `= ?`, []any{s.Owner, s.Status}
	},
	Statuses: []string{string(Pending), string(Delivered), string(Dead), string(Failed)},
	NextOwner: `SELECT min(destination) FROM webhook_deliveries WHERE destination <> 'own'
		AND destination > o.owner`,
	OfAny: `webhook_deliveries WHERE destination = b.owner AND destination <> 'own'
		AND status IN ('pending', 'delivered', 'dead', 'failed')`,
	OfOne: `webhook_deliveries WHERE destination = b.owner AND destination <> 'own' AND status = b.status`}

// toReceiver chooses the deliveries to a supplier's receiver; its second condition is their index's own.
const toReceiver = `destination = ? AND destination <> 'own'`

// newestOfEach ends each status's part of a list.
const newestOfEach = `ORDER BY created_at DESC, id DESC LIMIT ?`

// sentColumns are what a supplier's list shows of a delivery.
const sentColumns = listedColumns + `, last_started_at, last_duration_us, last_status, last_error`

func (r *deliveryRow) sentPlaces() []any {
	return append(r.listed(), &r.LastStartedAt, &r.LastDurationUs, &r.LastStatus, &r.LastError)
}

// of returns the statuses that the filter chooses.
func (f SentFilter) of() []Status {
	if f.Status == "" {
		return statuses
	}
	return []Status{f.Status}
}

// times returns the bounds of when the chosen deliveries were made.
func (f SentFilter) times() database.Range {
	r := database.AnyTime
	if !f.Since.IsZero() {
		r.Since = micros(f.Since)
	}
	if !f.Until.IsZero() {
		r.Until = micros(f.Until)
	}
	return r
}

// micros rounds up: nothing that is before the moment is at it.
func micros(at time.Time) int64 {
	return at.Add(time.Microsecond - 1).UnixMicro()
}

// sent reads one page, newest first, its ids by the index, then their rows; total is over all pages.
func (s *store) sent(ctx context.Context, supplierID string, filter SentFilter, limit int, offset int64) (total int64,
	rows []deliveryRow, err error) {
	times := filter.times()
	series := database.Series{Owner: supplierID, Status: string(filter.Status)}
	place, err := s.db.Place(ctx, sentList, series, times, limit, offset)
	if err != nil || offset >= place.Total {
		return place.Total, nil, err
	}
	var args []any
	newest := database.Arms(filter.of(), func(status Status) string {
		args = append(args, supplierID, status, place.Since, place.Before, place.Skip+place.Rows)
		return `SELECT created_at AS at, id AS key FROM webhook_deliveries WHERE ` + toReceiver +
			` AND status = ? AND created_at >= ? AND created_at < ? ` + newestOfEach
	})
	rows, err = database.Scan(s.db.Reader(ctx).Raw(`SELECT `+sentColumns+` FROM (`+newest+`
			ORDER BY at DESC, key DESC LIMIT ? OFFSET ?) AS p
		JOIN webhook_deliveries ON id = key ORDER BY at DESC, key DESC`, append(args, place.Rows, place.Skip)...),
		(*deliveryRow).sentPlaces)
	if err != nil {
		return 0, nil, fmt.Errorf("read webhook deliveries: %w", err)
	}
	return place.Total, rows, nil
}

// sentOf is sent for the deliveries of one request.
func (s *store) sentOf(ctx context.Context, supplierID string, filter SentFilter, request round.Round, limit int,
	offset int64) (total int64, rows []deliveryRow, err error) {
	ids, err := s.idsOf(ctx, request.UID)
	if err != nil {
		return 0, nil, fmt.Errorf("read a request's webhook events: %w", err)
	}
	times := filter.times()
	apart := `` // or a plan by another index goes through the ids for each row
	if s.postgres() {
		apart = ` OFFSET 0`
	}
	rows, err = database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT `+sentColumns+`
		FROM (SELECT * FROM webhook_deliveries WHERE `+s.anyOf("id", 1)+apart+`) AS webhook_deliveries
		WHERE destination = $2 AND destination <> 'own' AND created_at >= $3 AND created_at < $4
			AND ($5 = '' OR status = $5) ORDER BY `+newestFirst,
		[]any{s.values(ids), supplierID, times.Since, times.Until, string(filter.Status)}, (*deliveryRow).sentPlaces)
	if err != nil {
		return 0, nil, fmt.Errorf("read a request's webhook deliveries: %w", err)
	}
	total = int64(len(rows))
	from := min(offset, total)
	return total, rows[from:min(from+int64(limit), total)], nil
}

// sentByID returns nil when the supplier has no delivery of that id to its own receiver.
func (s *store) sentByID(ctx context.Context, supplierID, id string) (*deliveryRow, error) {
	var rows []deliveryRow
	err := s.db.Reader(ctx).Raw(`SELECT * FROM webhook_deliveries WHERE id = ?`, id).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read webhook delivery: %w", err)
	}
	if len(rows) == 0 || rows[0].Destination != supplierID {
		return nil, nil
	}
	return &rows[0], nil
}

func (r deliveryRow) sent() Sent {
	d := r.delivery()
	sent := Sent{
		ID: d.ID, RequestID: d.RequestID, EventType: webhook.TypeEstimated, Status: d.Status, AttemptCount: d.AttemptCount,
		NextAttempt: d.NextAttempt, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
	if r.LastStartedAt != nil {
		last := r.last().answered(r.Worker != nil)
		sent.LastAttempt = &last.SentAttempt
	}
	return sent
}

func (r deliveryRow) last() attemptRow {
	return attemptRow{r.Attempts, *r.LastStartedAt, r.LastDurationUs, r.LastStatus, r.LastError, r.LastResponse}
}

// answered returns the attempt as its receiver's owner may see it.
func (r attemptRow) answered(underWay bool) AnsweredAttempt {
	a := r.attempt()
	sent := SentAttempt{Number: a.Number, StartedAt: a.Time, DurationMS: a.DurationMS, Status: a.Status}
	switch {
	case a.Error != nil:
		text := publicError(*a.Error)
		sent.Error = &text
	case a.DurationMS == nil && !underWay:
		text := interrupted
		sent.Error = &text
	}
	return AnsweredAttempt{sent, a.Response}
}

// sentDetail adds the event and all attempts.
func (s *store) sentDetail(ctx context.Context, row deliveryRow) (SentDetail, error) {
	detail := SentDetail{Sent: row.sent(), Attempts: []AnsweredAttempt{}}
	body, err := s.eventOf(ctx, row)
	if err != nil {
		return SentDetail{}, err
	}
	detail.Event = json.RawMessage(body)
	var rows []attemptRow
	err = s.db.Reader(ctx).Raw(`SELECT number, started_at, duration_us, status, error, response FROM webhook_attempts
		WHERE delivery_id = ? AND number < ? ORDER BY number`, row.ID, row.Attempts).Scan(&rows).Error
	if err != nil {
		return SentDetail{}, fmt.Errorf("read webhook attempts: %w", err)
	}
	for _, earlier := range rows {
		detail.Attempts = append(detail.Attempts, earlier.answered(false))
	}
	if row.LastStartedAt != nil {
		detail.Attempts = append(detail.Attempts, row.last().answered(row.Worker != nil))
	}
	return detail, nil
}

// eventOf returns the event as it is sent.
func (s *store) eventOf(ctx context.Context, row deliveryRow) ([]byte, error) {
	var rows []struct{ Body []byte }
	err := s.db.Reader(ctx).Raw(`SELECT body FROM webhook_events WHERE uid = ? AND round = ?`, row.UID,
		row.Round).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read webhook event: %w", err)
	}
	if len(rows) == 0 { // deleted by retention between two statements
		return nil, unknownDeliveries([]string{row.ID})
	}
	body, err := pack.Unpack(rows[0].Body)
	if err != nil {
		return nil, fmt.Errorf("read webhook event: %w", err)
	}
	return body, nil
}

// chosen returns the next deliveries, behind one, that the filter, which names a status, chooses and that have it since
// begun or longer: the oldest first.
func (s *store) chosen(ctx context.Context, supplierID string, filter SentFilter, begun time.Time, after candidate) (
	[]candidate, error) {
	times := filter.times()
	batch, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT id, created_at, true FROM webhook_deliveries
		WHERE destination = $1 AND destination <> 'own' AND status = $2 AND created_at >= $3 AND created_at < $4
			AND (created_at, id) > ($5, $6) AND updated_at <= $7 ORDER BY created_at, id LIMIT $8`,
		[]any{supplierID, filter.Status, max(times.Since, after.createdAt), times.Until, after.createdAt, after.id,
			begun.UnixMicro(), recoverBatch}, (*candidate).places)
	if err != nil {
		return nil, fmt.Errorf("choose webhook deliveries: %w", err)
	}
	return batch, nil
}

// history counts n buckets of the width from the given time on, by their index alone.
func (s *store) history(ctx context.Context, supplierID string, from time.Time, width time.Duration, n int) ([]Bucket,
	error) {
	buckets := make([]Bucket, n)
	for i := range buckets {
		buckets[i].Start = from.Add(time.Duration(i) * width)
	}
	for _, status := range statuses {
		var rows []struct{ Bucket, N int64 }
		err := s.db.Reader(ctx).Raw(`SELECT (created_at - CAST(? AS bigint)) / CAST(? AS bigint) AS bucket, count(*) AS n
			FROM webhook_deliveries WHERE `+toReceiver+` AND status = ? AND created_at >= ? GROUP BY 1`,
			from.UnixMicro(), width.Microseconds(), supplierID, status, from.UnixMicro()).Scan(&rows).Error
		if err != nil {
			return nil, fmt.Errorf("count webhook deliveries by time: %w", err)
		}
		for _, row := range rows {
			buckets[min(max(row.Bucket, 0), int64(n-1))].add(status, row.N)
		}
	}
	return buckets, nil
}

func (b *Bucket) add(status Status, n int64) {
	switch status {
	case Delivered:
		b.Delivered += n
	case Pending:
		b.Pending += n
	default:
		b.Lost += n
	}
}
