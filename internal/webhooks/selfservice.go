package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/expirable"

	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Sent is a delivery as the supplier sees it whose receiver it goes to.
type Sent struct {
	ID           string       `json:"id"` // the webhook-id
	RequestID    int64        `json:"request_id"`
	EventType    string       `json:"event_type"`
	Status       Status       `json:"status"`
	AttemptCount int64        `json:"attempt_count"`
	NextAttempt  *time.Time   `json:"next_attempt_at"` // nil unless pending
	CreatedAt    time.Time    `json:"created_at"`
	UpdatedAt    time.Time    `json:"updated_at"`
	LastAttempt  *SentAttempt `json:"last_attempt"` // the last one begun; nil: none yet
}

// SentAttempt is one call of a delivery.
type SentAttempt struct {
	Number     int64     `json:"number"`
	StartedAt  time.Time `json:"started_at"`
	DurationMS *int64    `json:"duration_ms"` // nil until it has ended
	Status     *int      `json:"status"`
	Error      *string   `json:"error"` // without any address of the operator's network
}

// SentDetail is a delivery with what is sent and every attempt, the oldest first.
type SentDetail struct {
	Sent
	Event    json.RawMessage   `json:"event"`
	Attempts []AnsweredAttempt `json:"attempts"`
}

// AnsweredAttempt is an attempt with the first 1 KiB of its answer.
type AnsweredAttempt struct {
	SentAttempt
	Response string `json:"response"`
}

// SentFilter chooses deliveries; a zero field chooses all. Since is inclusive, Until is not.
type SentFilter struct {
	Status       Status
	RequestID    *int64
	Since, Until time.Time
}

// SecretValidity is when a secret of a receiver was made and ends; it does not hold the secret.
type SecretValidity struct {
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"` // nil: until it is rotated
}

// ReceiverView is a supplier's receiver as it sees it itself.
type ReceiverView struct {
	URL                 *string          `json:"url"`
	State               string           `json:"state"` // none, active, failing or paused
	PausedBy            *string          `json:"paused_by"`
	ConsecutiveFailures int64            `json:"consecutive_failures"`
	LastSuccessAt       *time.Time       `json:"last_success_at"`
	LastFailureAt       *time.Time       `json:"last_failure_at"`
	LastError           *string          `json:"last_error"`
	Secrets             []SecretValidity `json:"secrets"`
}

// History counts a supplier's deliveries by when they were made, the oldest first: the last 24 hours by hours, and the
// last 7 days by quarters of a day, which are the same in every time zone.
type History struct{ Hours, Quarters []Bucket }

// Bucket counts the deliveries that were made from Start on and what has become of them.
type Bucket struct {
	Start                    time.Time
	Delivered, Pending, Lost int64
}

// Accounts are the suppliers' addresses and secrets.
type Accounts interface {
	Destinations
	SetWebhookURL(ctx context.Context, supplierID, url string) error
	WebhookSecrets(ctx context.Context, supplierID string) ([]SecretValidity, error)
	RotateWebhookSecret(ctx context.Context, supplierID string, overlap time.Duration) (string, error)
}

// Requests are those that deliveries bring the estimates of.
type Requests interface {
	// Round returns the round that a supplier's request is in; errs.NotFound: there is none.
	Round(ctx context.Context, supplierID string, requestID int64) (round.Round, error)
}

// SelfServiceDeps is what SelfService is built from.
type SelfServiceDeps struct {
	DB         *database.DB
	Now        func() time.Time
	Accounts   Accounts
	Requests   Requests
	Dispatcher *Dispatcher
	Cursors    cursor.Sealer
}

// SelfService is what suppliers see of the deliveries to their own receivers, and what they may do about them. Nothing
// of it reaches a delivery to the own endpoint or of another supplier. It is safe for concurrent use.
type SelfService struct {
	deps      SelfServiceDeps
	store     *store
	histories *lru.LRU[string, History]
}

const (
	historiesKept = 1024
	historyAge    = 15 * time.Second
	longestKeep   = 7 * 24 * time.Hour // overlap of a secret that its supplier rotates
)

// NewSelfService builds it.
func NewSelfService(deps SelfServiceDeps) *SelfService {
	return &SelfService{deps: deps, store: &store{db: deps.DB},
		histories: lru.NewLRU[string, History](historiesKept, nil, historyAge)}
}

// List returns one page of the deliveries that the filter chooses, newest first, and how many there are.
func (s *SelfService) List(ctx context.Context, supplierID string, filter SentFilter, page httpapi.Page) (total int64,
	items []Sent, err error) {
	total, rows, err := s.sent(ctx, supplierID, filter, page)
	if err != nil {
		return 0, nil, err
	}
	items = make([]Sent, len(rows))
	for i, row := range rows {
		items[i] = row.sent()
	}
	return total, items, nil
}

func (s *SelfService) sent(ctx context.Context, supplierID string, filter SentFilter, page httpapi.Page) (total int64,
	rows []deliveryRow, err error) {
	if filter.RequestID == nil {
		return s.store.sent(ctx, supplierID, filter, page.Size, page.Offset())
	}
	latest, err := s.deps.Requests.Round(ctx, supplierID, *filter.RequestID)
	if errs.KindOf(err) == errs.NotFound {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	return s.store.sentOf(ctx, supplierID, filter, latest, page.Size, page.Offset())
}

// Show returns a delivery with its attempts. Errors: errs.NotFound.
func (s *SelfService) Show(ctx context.Context, supplierID, id string) (SentDetail, error) {
	row, err := s.store.sentByID(ctx, supplierID, id)
	if err != nil {
		return SentDetail{}, err
	}
	if row == nil {
		return SentDetail{}, errs.New(errs.NotFound, "There is no such delivery.")
	}
	return s.store.sentDetail(ctx, *row)
}

// Redeliver sends a delivery again, now: one that is not pending begins a new series of attempts, of a pending one the
// next attempt is made. What a worker sends right now is left to it. Errors: errs.NotFound.
func (s *SelfService) Redeliver(ctx context.Context, supplierID, id string) error {
	row, err := s.store.sentByID(ctx, supplierID, id)
	if err != nil {
		return err
	}
	if row == nil {
		return errs.New(errs.NotFound, "There is no such delivery.")
	}
	return s.inTx(ctx, "redeliver", func(ctx context.Context) error {
		found, err := s.store.lockByID(ctx, []string{id})
		if err != nil {
			return err
		}
		return s.store.again(ctx, found, s.deps.Now())
	})
}

// inTx runs fn in a transaction and says what failed.
func (s *SelfService) inTx(ctx context.Context, what string, fn func(context.Context) error) error {
	if err := s.deps.DB.InTx(ctx, what, fn); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// undelivered is the status, of a recovery alone, of all that is not delivered.
const undelivered Status = "undelivered"

// Recoverable returns the statuses of a recovery.
func Recoverable() []Status { return []Status{undelivered, Pending, Dead, Failed, Delivered} }

// Recover is Redeliver for all deliveries of a status that were made in a range of time. What comes to the status while
// it runs is left as it is.
func (s *SelfService) Recover(ctx context.Context, supplierID string, filter SentFilter) (total int64, err error) {
	begun, of := s.deps.Now(), []Status{filter.Status}
	defer func(chosen SentFilter) {
		logctx.Note(ctx, slog.String("status", string(chosen.Status)), slog.Time("since", chosen.Since),
			slog.Time("until", chosen.Until), slog.Int64("count", total))
	}(filter)
	if filter.Status == undelivered {
		of = []Status{Pending, Dead, Failed} // what is dead is pending afterwards
	}
	for _, filter.Status = range of {
		n, err := s.recover(ctx, supplierID, filter, begun)
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}

// recover is Recover for one status. What it sends again may stay where it goes through: each batch is behind the last.
func (s *SelfService) recover(ctx context.Context, supplierID string, filter SentFilter, begun time.Time) (total int64,
	err error) {
	for after := (candidate{}); ; {
		batch, err := s.store.chosen(ctx, supplierID, filter, begun, after)
		if err != nil || len(batch) == 0 {
			return total, err
		}
		after = batch[len(batch)-1]
		var n int64
		err = s.inTx(ctx, "recover deliveries", func(ctx context.Context) error {
			found, err := s.store.lockByID(ctx, chosenIDs(batch))
			if err != nil {
				return err
			}
			found = slices.DeleteFunc(found, func(d Delivery) bool {
				return d.Status != filter.Status || d.UpdatedAt.After(begun)
			})
			n = int64(len(found))
			return s.store.again(ctx, found, s.deps.Now())
		})
		if err != nil {
			return total, err
		}
		total += n
	}
}

// History returns the supplier's counts, at most historyAge old.
func (s *SelfService) History(ctx context.Context, supplierID string) (History, error) {
	if h, known := s.histories.Get(supplierID); known {
		return h, nil
	}
	now := s.deps.Now().UTC()
	hours, err := s.store.history(ctx, supplierID, now.Truncate(time.Hour).Add(-23*time.Hour), time.Hour, 24)
	if err != nil {
		return History{}, err
	}
	quarters, err := s.store.history(ctx, supplierID, now.Truncate(6*time.Hour).Add(-27*6*time.Hour), 6*time.Hour, 28)
	if err != nil {
		return History{}, err
	}
	h := History{hours, quarters}
	s.histories.Add(supplierID, h)
	return h, nil
}

// Receiver returns the supplier's receiver and its state.
func (s *SelfService) Receiver(ctx context.Context, supplierID string) (ReceiverView, error) {
	found, err := s.deps.Accounts.Receivers(ctx, []string{supplierID})
	if err != nil {
		return ReceiverView{}, fmt.Errorf("look up receiver: %w", err)
	}
	view := ReceiverView{State: "none"}
	if view.Secrets, err = s.deps.Accounts.WebhookSecrets(ctx, supplierID); err != nil {
		return ReceiverView{}, err
	}
	state, err := s.store.receiverState(ctx, supplierID)
	if err != nil {
		return ReceiverView{}, err
	}
	state.show(&view)
	if url := found[supplierID].URL; url != "" {
		view.URL = &url
		view.State = state.name()
	}
	return view, nil
}

// SetURL changes the receiver's address; empty removes the receiver. A pause stays, and so does what is pending.
// Errors: errs.Invalid.
func (s *SelfService) SetURL(ctx context.Context, supplierID, url string) error {
	return s.deps.Accounts.SetWebhookURL(ctx, supplierID, url)
}

// RotateSecret returns a new secret; the current one signs beside it for the overlap. Errors: errs.Invalid.
func (s *SelfService) RotateSecret(ctx context.Context, supplierID string, overlap time.Duration) (string, error) {
	if overlap < 0 || overlap > longestKeep {
		return "", errs.InvalidInput("The overlap is not valid.", errs.At("/overlap", "must be from 0s to 168h"))
	}
	logctx.Note(ctx, slog.Duration("overlap", overlap))
	return s.deps.Accounts.RotateWebhookSecret(ctx, supplierID, overlap)
}

// mustHaveReceiver returns the supplier's receiver. Errors: errs.Conflict when it has none.
func (s *SelfService) mustHaveReceiver(ctx context.Context, supplierID string) (Receiver, error) {
	found, err := s.deps.Accounts.Receivers(ctx, []string{supplierID})
	if err != nil {
		return Receiver{}, fmt.Errorf("look up receiver: %w", err)
	}
	if found[supplierID].URL == "" {
		return Receiver{}, errs.New(errs.Conflict, "There is no receiver. Set its address first.")
	}
	return found[supplierID], nil
}
