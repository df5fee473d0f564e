package webhooks

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
)

// looked bounds what one page goes through when only some of the deliveries are wanted.
const looked = 2000

// Recent returns one page of the deliveries that the filter's status and supplier choose, by an index and however many
// there are: the newest first, pending ones as they are due. next leads on from there; empty: that was all. A page may
// be short, or empty with a next, when it looked through many that are not wanted.
func (d *Dispatcher) Recent(ctx context.Context, filter Filter, after string, limit int) (
	page []Delivery, next string, err error) {
	switch {
	case filter.Status == Pending:
		return d.store.recentPending(ctx, filter, after, limit, d.stuckBefore())
	case filter.Status == Dead || filter.Status == Failed:
		return d.store.recentLost(ctx, filter, after, limit)
	case filter.SupplierID != "":
		return d.store.recentOf(ctx, filter, after, limit)
	default:
		return d.store.recentAll(ctx, filter, after, limit)
	}
}

// recentAll goes by the ids, which follow the time, day by day.
func (s *store) recentAll(ctx context.Context, filter Filter, after string, limit int) ([]Delivery, string, error) {
	window := s.db.Reader(ctx).Model(&deliveryRow{}).Order("id DESC")
	if after != "" {
		window = window.Where("id < ?", after)
	}
	return s.through(ctx, window, "id DESC", filter.Status, limit, func(d Delivery) string { return d.ID })
}

// through goes through so many of an ordered list at most for those of the status.
func (s *store) through(ctx context.Context, list *gorm.DB, order string, status Status, limit int,
	place func(Delivery) string) (page []Delivery, next string, err error) {
	list = list.Session(&gorm.Session{})
	query, among := list.Limit(limit), limit
	if status != "" {
		query, among = s.db.Reader(ctx).Table("(?) AS webhook_deliveries", list.Limit(looked)).Where("status = ?",
			status).Order(order).Limit(limit), looked
	}
	if page, err = deliveries(query); err != nil || len(page) == limit {
		return page, placeOfLast(page, place), err
	}
	if among == limit {
		return page, "", nil
	}
	last, err := deliveries(list.Offset(among - 1).Limit(1))
	return page, placeOfLast(last, place), err
}

func placeOfLast(page []Delivery, place func(Delivery) string) string {
	if len(page) == 0 {
		return ""
	}
	return place(page[len(page)-1])
}

// lost returns the deliveries of a status that is neither pending nor delivered: of all destinations by the index of
// these, or of one supplier's receiver by its own.
func (s *store) lost(ctx context.Context, filter Filter) *gorm.DB {
	if filter.SupplierID != "" {
		return s.db.Reader(ctx).Where("destination = ? AND destination <> 'own' AND status <> 'delivered' AND status = ?",
			filter.SupplierID, filter.Status)
	}
	return s.db.Reader(ctx).Where("status IN ('dead', 'failed') AND status = ?", filter.Status)
}

func (s *store) countLost(ctx context.Context, filter Filter, most int) (n int64, err error) {
	some := s.lost(ctx, filter).Model(&deliveryRow{}).Select("1 AS one").Limit(most)
	if err := s.db.Reader(ctx).Table("(?) AS lost", some).Count(&n).Error; err != nil {
		return 0, fmt.Errorf("count lost webhook deliveries: %w", err)
	}
	return n, nil
}

// lostUntil returns the ids of what was lost by then, the oldest first.
func (s *store) lostUntil(ctx context.Context, filter Filter, until time.Time, limit int) (ids []string, err error) {
	err = s.lost(ctx, filter).Model(&deliveryRow{}).Where("updated_at <= ?", until.UnixMicro()).Order("created_at").
		Limit(limit).Pluck("id", &ids).Error
	if err != nil {
		return nil, fmt.Errorf("list lost webhook deliveries: %w", err)
	}
	return ids, nil
}

// recentLost goes by the index of what is not delivered in the end.
func (s *store) recentLost(ctx context.Context, filter Filter, after string, limit int) ([]Delivery, string, error) {
	return s.through(ctx, behind(s.lost(ctx, filter).Order(newestFirst), after), newestFirst, "", limit, placeInTime)
}

// recentOf goes by the index of what is sent to suppliers' receivers.
func (s *store) recentOf(ctx context.Context, filter Filter, after string, limit int) ([]Delivery, string, error) {
	at, id, ok := cutCursor(after)
	if !ok {
		at, id = math.MaxInt64-1, ""
	}
	series := database.Series{Owner: filter.SupplierID, Status: string(filter.Status)}
	ends, err := s.db.Place(ctx, sentList, series, database.Range{Until: at + 1}, limit, 0)
	if err != nil {
		return nil, "", err
	}
	for since := ends.Since; ; since = 0 { // many of the place's very time may be before it
		page, err := s.recentSince(ctx, filter, since, at, id, limit)
		if err == nil && len(page) == limit {
			return page, placeOfLast(page, placeInTime), nil
		}
		if err != nil || since == 0 {
			return page, "", err
		}
	}
}

func (s *store) recentSince(ctx context.Context, filter Filter, since, at int64, id string, limit int) ([]Delivery,
	error) {
	var args []any
	newest := database.Arms(SentFilter{Status: filter.Status}.of(), func(status Status) string {
		args = append(args, filter.SupplierID, status, since, at, at, id, limit)
		return `SELECT created_at, id FROM webhook_deliveries WHERE ` + toReceiver +
			` AND status = ? AND created_at >= ? AND created_at <= ? AND (created_at, id) < (?, ?) ` + newestOfEach
	})
	return deliveries(s.db.Reader(ctx).Raw(`SELECT d.* FROM (`+newest+` ORDER BY created_at DESC, id DESC LIMIT ?) AS p
		JOIN webhook_deliveries d ON d.id = p.id ORDER BY p.created_at DESC, p.id DESC`, append(args, limit)...))
}

func behind(list *gorm.DB, after string) *gorm.DB {
	if at, id, ok := cutCursor(after); ok {
		return list.Where("created_at <= ? AND (created_at, id) < (?, ?)", at, at, id)
	}
	return list
}

func placeInTime(d Delivery) string { return placeAt(d.CreatedAt, d.ID) }

// recentPending goes by the index of what waits, destination by destination. What is attempted right now is not listed,
// but what a worker has held since before the given time: it comes first.
func (s *store) recentPending(ctx context.Context, filter Filter, after string, limit int, stuckBefore time.Time) (
	[]Delivery, string, error) {
	var stuck []Delivery
	if after == "" {
		held := s.db.Reader(ctx).Where("worker IS NOT NULL AND coalesce(last_started_at, 0) < ?", stuckBefore.UnixMicro())
		if filter.SupplierID != "" {
			held = held.Where("destination = ?", filter.SupplierID)
		}
		var err error
		if stuck, err = deliveries(held.Order("worker").Limit(limit - 1)); err != nil {
			return nil, "", err
		}
		limit -= len(stuck)
	}
	query := s.db.Reader(ctx).Where("status = 'pending' AND worker IS NULL").
		Order("destination, next_attempt_at, id").Limit(limit)
	if filter.SupplierID != "" {
		query = query.Where("destination = ?", filter.SupplierID)
	}
	if destination, rest, ok := strings.Cut(after, "~"); ok {
		if at, id, ok := cutCursor(rest); ok {
			query = query.Where("destination >= ? AND (destination, next_attempt_at, id) > (?, ?, ?)", destination, destination,
				at, id)
		}
	}
	page, err := deliveries(query)
	if err != nil || len(page) < limit {
		return append(stuck, page...), "", err
	}
	last := page[limit-1]
	return append(stuck, page...), last.Destination + "~" + placeAt(*last.NextAttempt, last.ID), nil
}

func placeAt(at time.Time, id string) string { return fmt.Sprintf("%d~%s", at.UnixMicro(), id) }

func cutCursor(text string) (micros int64, id string, ok bool) {
	at, id, found := strings.Cut(text, "~")
	micros, err := strconv.ParseInt(at, 10, 64)
	return micros, id, found && err == nil
}

// ReceiverStates returns what is known of the suppliers' receivers; those without a record are not in it.
func (d *Dispatcher) ReceiverStates(ctx context.Context, suppliers []string) (map[string]ReceiverState, error) {
	if len(suppliers) == 0 {
		return map[string]ReceiverState{}, nil
	}
	return d.store.receiverStates(ctx, `supplier_id IN ?`, suppliers)
}

// IllStates returns the states of the receivers that fail or are paused, by an index that has no others.
func (d *Dispatcher) IllStates(ctx context.Context) (map[string]ReceiverState, error) {
	return d.store.receiverStates(ctx, `failing_since IS NOT NULL OR paused_by <> ''`)
}

func (s *store) receiverStates(ctx context.Context, condition string, args ...any) (map[string]ReceiverState, error) {
	var rows []struct {
		SupplierID                                           string
		ConsecutiveFailures                                  int
		FailingSince, LastSuccessAt, LastFailureAt, PausedAt *int64
		LastError, PausedBy                                  string
	}
	err := s.db.Reader(ctx).Raw(`SELECT supplier_id, consecutive_failures, failing_since, last_success_at,
			last_failure_at, last_error, paused_by, paused_at
		FROM webhook_receivers WHERE `+condition, args...).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read the receivers' states: %w", err)
	}
	states := make(map[string]ReceiverState, len(rows))
	for _, r := range rows {
		states[r.SupplierID] = ReceiverState{
			PausedBy: r.PausedBy, PausedAt: timeOrNil(r.PausedAt), Failures: r.ConsecutiveFailures,
			FailingSince: timeOrNil(r.FailingSince),
			LastSuccess:  timeOrNil(r.LastSuccessAt), LastFailure: timeOrNil(r.LastFailureAt), LastError: r.LastError,
		}
	}
	return states, nil
}

// traced bounds the search for an X-Request-Id, which has no index: the events of the newest requests.
const traced = 10_000

// Traced returns the ids of the deliveries to the own endpoint whose request came with the X-Request-Id, among the
// events of the newest requests.
func (d *Dispatcher) Traced(ctx context.Context, traceID string) ([]string, error) {
	events, err := d.store.storedEvents(ctx, `(SELECT uid, round, nonce, created_at, trace_id
		FROM webhook_events ORDER BY uid DESC, round DESC LIMIT $1) AS newest WHERE trace_id = $2 LIMIT 20`, traced, traceID)
	if err != nil {
		return nil, fmt.Errorf("look for the request id: %w", err)
	}
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.WebhookID(round.OwnEndpoint)
	}
	return ids, nil
}
