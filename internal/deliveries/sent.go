package deliveries

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/reads"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Sent is a delivery as the owner of its receiver sees it.
type Sent struct {
	ID           string       `json:"id"` // the webhook-id
	RequestID    int64        `json:"request_id"`
	EventType    string       `json:"event_type"`
	Status       Status       `json:"status"`
	AttemptCount int64        `json:"attempt_count"`
	NextAttempt  *time.Time   `json:"next_attempt_at"` // nil unless pending
	CreatedAt    time.Time    `json:"created_at"`
	UpdatedAt    time.Time    `json:"updated_at"`
	LastAttempt  *SentAttempt `json:"last_attempt"` // the one that began last; nil before the first
}

// SentAttempt is one call of a delivery.
type SentAttempt struct {
	Number     int64     `json:"number"`
	StartedAt  time.Time `json:"started_at"`
	DurationMS *int64    `json:"duration_ms"` // nil until it has ended
	Status     *int      `json:"status"`
	Error      *string   `json:"error"` // why it failed, without any address of the operator's network
}

// SentEvent is a delivery with its event.
type SentEvent struct {
	Sent
	Event json.RawMessage `json:"event"`
}

// SentDetail is a delivery with its event and attempts, the oldest of them first.
type SentDetail struct {
	SentEvent
	Attempts []AnsweredAttempt `json:"attempts"`
}

// AnsweredAttempt is an attempt with the address called and the first 1 KiB of the answer.
type AnsweredAttempt struct {
	SentAttempt
	URL      *string `json:"url"` // without query values; nil while it runs, and if it was interrupted
	Response string  `json:"response"`
}

// SentFilter chooses deliveries to a supplier's receiver. A zero field excludes nothing. Since is inclusive, Until is
// exclusive.
type SentFilter struct {
	Status       Status
	RequestID    *int64
	Since, Until time.Time
}

// to returns the filter for deliveries to the supplier's receiver.
func (f SentFilter) to(supplierID string) Filter {
	return Filter{Receiver: supplierID, Status: f.Status, Since: f.Since, Until: f.Until}
}

// list names the supplier's filtered list, for its cursors.
func (f SentFilter) list(cursors cursor.Sealer, supplierID string) cursor.List {
	request := ""
	if f.RequestID != nil {
		request = strconv.FormatInt(*f.RequestID, 10)
	}
	return cursors.List("deliveries", supplierID, string(f.Status), request, f.Since.String(), f.Until.String())
}

// History counts a supplier's newest deliveries by the time they were made, the oldest first. Hours covers the last 24
// hours. Quarters covers the last 7 days in quarters of a UTC day, which are the same in every time zone.
type History struct{ Hours, Quarters []Bucket }

// Bucket counts the deliveries made in the hour or quarter that begins at Start, by their present status.
type Bucket struct {
	Start                    time.Time
	Delivered, Pending, Lost int64
}

// Requests finds the requests that deliveries are about.
type Requests interface {
	// Round returns the current round of a supplier's request. Errors: errs.NotFound.
	Round(ctx context.Context, supplierID string, requestID int64) (round.Round, error)
}

// SelfServiceDeps is what SelfService is built from.
type SelfServiceDeps struct {
	DB         *database.DB
	Now        func() time.Time
	Local      func() time.Time // monotonic
	Requests   Requests
	Deliveries *Keeper
	Cursors    cursor.Sealer
}

// SelfService lets suppliers see the deliveries to their own receivers and send them again. It never touches deliveries
// to the own endpoint or to another supplier. It is safe for concurrent use.
type SelfService struct {
	deps      SelfServiceDeps
	store     *store
	histories *reads.Cache[History]
}

const (
	historiesKept = 1024
	historyAge    = 15 * time.Second
	historyWait   = 10 * time.Second
)

// NewSelfService builds it.
func NewSelfService(deps SelfServiceDeps) *SelfService {
	return &SelfService{deps: deps, store: &store{Tables{deps.DB}},
		histories: reads.New[History](historiesKept, historyAge, historyWait, deps.Local)}
}

// MostWaiting is where Waiting stops counting.
const MostWaiting = 100_000

// List returns one page of the deliveries that the filter chooses, newest first. It also returns the cursor of the next
// page, which is empty after the last one. Errors: errs.Invalid when the cursor belongs to another list.
func (s *SelfService) List(ctx context.Context, supplierID string, filter SentFilter, query httpapi.ListQuery) (
	items []Sent, next string, err error) {
	behind, wrong := s.open(supplierID, filter, query)
	if len(wrong) > 0 {
		return nil, "", errs.InvalidInput("The parameters are not valid.", wrong...)
	}
	chosen := filter.to(supplierID)
	if filter.RequestID != nil {
		latest, err := s.deps.Requests.Round(ctx, supplierID, *filter.RequestID)
		if errs.KindOf(err) == errs.NotFound {
			return []Sent{}, "", nil
		}
		if err != nil {
			return nil, "", err
		}
		chosen.Requests = []int64{latest.UID}
	}
	rows, end, err := s.store.page(ctx, chosen, behind, query.Limit)
	if err != nil {
		return nil, "", err
	}
	items = lists.Of(rows, deliveryRow.sent)
	if !end.IsZero() {
		next = filter.list(s.deps.Cursors, supplierID).Seal(end.UID, end.Round, end.Kind)
	}
	return items, next, nil
}

// open reads the cursor: the key of the last delivery before the page.
func (s *SelfService) open(supplierID string, filter SentFilter, query httpapi.ListQuery) (behind Key,
	wrong []errs.Violation) {
	list := filter.list(s.deps.Cursors, supplierID)
	wrong = query.Open(list, &behind.UID, &behind.Round, &behind.Kind)
	return behind, wrong
}

// Waiting counts the pending deliveries to the supplier's receiver, up to MostWaiting.
func (s *SelfService) Waiting(ctx context.Context, supplierID string) (int64, error) {
	return s.store.count(ctx, Filter{Receiver: supplierID, Status: Pending}, MostWaiting)
}

const (
	pageAttempts = 50      // of a delivery that a page shows, the newest
	partAttempts = 500     // that are read and sent together
	attemptText  = 2 << 10 // bytes of an attempt: its answer, its address and its error
)

// Show returns a delivery with its newest attempts, as many as a page shows. Errors: errs.NotFound.
func (s *SelfService) Show(ctx context.Context, supplierID, id string) (SentDetail, error) {
	row, sent, err := s.store.sentEvent(ctx, supplierID, id)
	if err != nil {
		return SentDetail{}, err
	}
	attempts, err := s.store.answeredOf(ctx, *row, max(row.AttemptCount-pageAttempts, 0), pageAttempts)
	return SentDetail{sent, attempts}, err
}

// Redeliver sends a delivery again, now. If it is pending, its next attempt is due at once; otherwise a new series of
// attempts begins. If a worker is sending it right now, Redeliver leaves it alone. Errors: errs.NotFound,
// errs.Exhausted.
//
// It is arrow h, but it changes no request: only deliveries to the own endpoint change one. If retention deletes the
// row between the look and the lock, nothing happens.
func (s *SelfService) Redeliver(ctx context.Context, supplierID, id string) error {
	if _, err := s.store.sentByID(ctx, supplierID, id); err != nil {
		return err
	}
	return errs.Doing("redeliver", s.deps.DB.InTx(ctx, "redeliver", func(ctx context.Context) error {
		found, err := s.store.lockByID(ctx, []string{id})
		if err != nil {
			return err
		}
		for _, delivery := range found {
			if rest := delivery.rest(s.deps.Now()); rest > 0 {
				return errs.NewExhausted("It was delivered, and sent again within the last minute.", rest)
			}
		}
		return s.store.again(ctx, found, s.deps.Now())
	}))
}

// restAgain is the shortest time between two redeliveries of a delivery that had arrived.
const restAgain = time.Minute

// rest returns how long it is until the delivery may be sent again.
func (d Delivery) rest(now time.Time) time.Duration {
	if d.sentAgain == nil || d.sentAgain.After(now.Add(clockApart)) { // the clock was set back
		return 0
	}
	return d.sentAgain.Add(restAgain).Sub(now)
}

// undelivered means every status but delivered. Only a recovery accepts it.
const undelivered Status = "undelivered"

// Recoverable returns the statuses that a recovery accepts.
func Recoverable() []Status { return []Status{undelivered, Pending, Dead, Failed, Delivered} }

// Recovered returns the delivery statuses that a recovery of s sends again, in that order. Pending comes before dead,
// because a dead delivery becomes pending when it is sent again.
func (s Status) Recovered() []Status {
	if s == undelivered {
		return []Status{Pending, Dead, Failed}
	}
	return []Status{s}
}

// Recover is Redeliver for all deliveries of a status that were made in a range of time. It leaves out deliveries that
// reach the status while it runs (after its first second), that are pending for a paused receiver, or that were
// delivered and sent again within the last minute. Each page is a transaction. If one fails, the pages before it stay
// redelivered, and another call redelivers the rest. errs.Exhausted: another recovery of the supplier runs.
func (s *SelfService) Recover(ctx context.Context, supplierID string, filter SentFilter) (total int64, err error) {
	chosen := filter.to(supplierID)
	chosen.rested = true
	running, err := s.begin(ctx, supplierID)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, running.end(ctx)) }()
	paused, err := s.deps.Deliveries.due.Paused(ctx, []string{supplierID})
	if err != nil {
		return 0, err
	}
	statuses := slices.DeleteFunc(filter.Status.Recovered(),
		func(s Status) bool { return s == Pending && len(paused) > 0 })
	total, err = s.deps.Deliveries.recover(ctx, chosen, statuses)
	logctx.Note(ctx, slog.String("status", string(filter.Status)), slog.Time("since", filter.Since),
		slog.Int64("count", total))
	if !filter.Until.IsZero() {
		logctx.Note(ctx, slog.Time("until", filter.Until))
	}
	return total, err
}

// History returns the supplier's counts, at most historyAge old. So they are counted once when many people of one
// supplier open the page.
func (s *SelfService) History(ctx context.Context, supplierID string) (History, error) {
	return s.histories.Get(ctx, supplierID, func(ctx context.Context) (History, error) {
		return s.countHistory(ctx, supplierID)
	})
}

func (s *SelfService) countHistory(ctx context.Context, supplierID string) (History, error) {
	const quarter, quarters = 6, 28 // hours in a quarter, quarters in 7 days
	now := s.deps.Now().UTC()
	from := now.Truncate(quarter * time.Hour).Add(-(quarters - 1) * quarter * time.Hour)
	hours, err := s.store.history(ctx, supplierID, from, time.Hour, quarter*quarters)
	if err != nil {
		return History{}, err
	}
	last := int(now.Sub(from) / time.Hour)
	h := History{Hours: hours[last-23 : last+1]}
	for some := range slices.Chunk(hours, quarter) {
		one := Bucket{Start: some[0].Start}
		for _, hour := range some {
			one.Delivered, one.Pending, one.Lost = one.Delivered+hour.Delivered, one.Pending+hour.Pending, one.Lost+hour.Lost
		}
		h.Quarters = append(h.Quarters, one)
	}
	return h, nil
}
