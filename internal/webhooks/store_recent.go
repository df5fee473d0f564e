package webhooks

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/supplyhub/supplyhub/internal/round"
)

// looked bounds what one page goes through when only some of the deliveries are wanted.
const looked = 2000

// Recent returns one page of the deliveries that the filter's status and supplier choose, by an index and however many
// there are: the newest first, pending ones as they are due. next leads on from there; empty: that was all. A page may
// be short, or empty with a next, when it looked through many that are not wanted.
func (d *Dispatcher) Recent(ctx context.Context, filter Filter, after string, limit int) (page []Delivery, next string,
	err error) {
	switch {
	case filter.Status == Pending:
		return d.store.recentPending(ctx, filter, after, limit)
	case filter.Status == Dead || filter.Status == Failed:
		return d.store.recentLost(ctx, filter, after, limit)
	case filter.SupplierID != "":
		return d.store.recentOf(ctx, filter, after, limit)
	default:
		return d.store.recentAll(ctx, filter, after, limit)
	}
}

// recentAll goes by the ids, which follow the requests' numbers.
func (s *store) recentAll(ctx context.Context, filter Filter, after string, limit int) ([]Delivery, string, error) {
	window := s.db.Reader(ctx).Model(&deliveryRow{}).Order("id DESC").Limit(looked)
	if after != "" {
		window = window.Where("id < ?", after)
	}
	query := s.db.Reader(ctx).Table("(?) AS webhook_deliveries", window).Order("id DESC").Limit(limit)
	if filter.Status != "" {
		query = query.Where("status = ?", filter.Status)
	}
	page, err := deliveries(query)
	if err != nil || len(page) == 0 && filter.Status == "" {
		return nil, "", err
	}
	if len(page) == limit {
		return page, page[limit-1].ID, nil
	}
	var last []string // of the window, when it was full
	err = s.db.Reader(ctx).Table("(?) AS w", window).Select("min(id)").Having("count(*) = ?", looked).Scan(&last).Error
	if err != nil || len(last) == 0 {
		return page, "", err
	}
	return page, last[0], nil
}

// recentLost goes by the index of what is not delivered in the end.
func (s *store) recentLost(ctx context.Context, filter Filter, after string, limit int) ([]Delivery, string, error) {
	query := s.db.Reader(ctx).Where("status IN ('dead', 'failed') AND status = ?",
		filter.Status).Order(newestFirst).Limit(limit)
	if filter.SupplierID != "" {
		query = query.Where("supplier_id = ?", filter.SupplierID)
	}
	return recentByTime(query, after, limit)
}

// recentOf goes by the index of what is sent to suppliers' receivers.
func (s *store) recentOf(ctx context.Context, filter Filter, after string, limit int) ([]Delivery, string, error) {
	query := s.db.Reader(ctx).Where("destination = ? AND destination <> 'own'",
		filter.SupplierID).Order(newestFirst).Limit(limit)
	if filter.Status != "" {
		query = query.Where("status = ?", filter.Status)
	}
	return recentByTime(query, after, limit)
}

func recentByTime(query *gorm.DB, after string, limit int) ([]Delivery, string, error) {
	if at, id, ok := cutCursor(after); ok {
		query = query.Where("created_at <= ? AND (created_at, id) < (?, ?)", at, at, id)
	}
	page, err := deliveries(query)
	if err != nil || len(page) < limit {
		return page, "", err
	}
	last := page[limit-1]
	return page, cursor(last.CreatedAt, last.ID), nil
}

// recentPending goes by the index of what waits, destination by destination. What is attempted right now is not listed.
func (s *store) recentPending(ctx context.Context, filter Filter, after string, limit int) ([]Delivery, string, error) {
	query := s.db.Reader(ctx).Where("status = 'pending' AND worker IS NULL").Order("destination, next_attempt_at, id").Limit(limit)
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
		return page, "", err
	}
	last := page[limit-1]
	return page, last.Destination + "~" + cursor(*last.NextAttempt, last.ID), nil
}

func cursor(at time.Time, id string) string { return fmt.Sprintf("%d~%s", at.UnixMicro(), id) }

func cutCursor(text string) (micros int64, id string, ok bool) {
	at, id, found := strings.Cut(text, "~")
	micros, err := strconv.ParseInt(at, 10, 64)
	return micros, id, found && err == nil
}

// ReceiverStates returns what is known of each supplier's receiver; suppliers without a record are not in it.
func (d *Dispatcher) ReceiverStates(ctx context.Context) (map[string]ReceiverState, error) {
	return d.store.receiverStates(ctx)
}

func (s *store) receiverStates(ctx context.Context) (map[string]ReceiverState, error) {
	var rows []struct {
		SupplierID                                           string
		ConsecutiveFailures                                  int
		FailingSince, LastSuccessAt, LastFailureAt, PausedAt *int64
		LastError, PausedBy                                  string
	}
	err := s.db.Reader(ctx).Raw(`SELECT supplier_id, consecutive_failures, failing_since, last_success_at, last_failure_at, last_error, paused_by, paused_at
		FROM webhook_receivers`).Scan(&rows).Error
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
	var rows []struct{ UID, Round int64 }
	err := d.deps.DB.Reader(ctx).Raw(`SELECT uid, round FROM (SELECT uid, round, trace_id FROM webhook_events ORDER BY uid DESC, round DESC LIMIT ?) AS newest
		WHERE trace_id = ? LIMIT 20`, traced, traceID).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("look for the request id: %w", err)
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = round.WebhookID(r.UID, r.Round, round.OwnEndpoint)
	}
	return ids, nil
}
