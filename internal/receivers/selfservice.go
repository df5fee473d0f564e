package receivers

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// SecretValidity is when a secret of a receiver was made and ends; it does not hold the secret.
type SecretValidity = caller.SecretValidity

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

	known ReceiverState
}

// Accounts are the suppliers' addresses and secrets.
type Accounts interface {
	Destinations
	SetWebhookURL(ctx context.Context, supplierID, url string) error
	WebhookSecrets(ctx context.Context, supplierID string) ([]SecretValidity, error)
	RotateWebhookSecret(ctx context.Context, supplierID string, overlap time.Duration) (string, error)
}

// TestCaller makes a test call.
type TestCaller interface {
	// TestCall makes one signed call to where the deliveries of request 0 would go, within the time of an attempt.
	TestCall(ctx context.Context, supplierID, id string, to Receiver, event []byte) deliveries.Answer
}

// SelfServiceDeps is what a SelfService is built from.
type SelfServiceDeps struct {
	DB        *database.DB
	Now       func() time.Time
	Accounts  Accounts
	Receivers *Registry
	Calls     TestCaller
}

// SelfService is what suppliers see of their own receivers, and what they may do about them. It is safe for concurrent
// use.
type SelfService struct{ deps SelfServiceDeps }

// longestKeep is the longest overlap of a secret that its supplier rotates.
const longestKeep = 7 * 24 * time.Hour

// NewSelfService builds it.
func NewSelfService(deps SelfServiceDeps) *SelfService {
	return &SelfService{deps}
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
	state, err := s.deps.Receivers.ReceiverState(ctx, supplierID)
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
// Errors: errs.Invalid. The account's transaction makes what waits due (Callable in package sending), so a new address
// gets it without any other step; the owner reads addresses before each claim.
func (s *SelfService) SetURL(ctx context.Context, supplierID, url string) error {
	return s.deps.Accounts.SetWebhookURL(ctx, supplierID, url)
}

// RotateSecret returns a new secret; the current one signs too for the overlap. Errors: errs.Invalid. Attempts that are
// begun and wait for their slot are signed as they were claimed, within a second.
func (s *SelfService) RotateSecret(ctx context.Context, supplierID string, overlap time.Duration) (string, error) {
	if overlap < 0 || overlap > longestKeep {
		return "", errs.InvalidInput("The overlap is not valid.", errs.At("/overlap", "must be from 0s to 168h"))
	}
	logctx.Note(ctx, slog.Duration("overlap", overlap))
	return s.deps.Accounts.RotateWebhookSecret(ctx, supplierID, overlap)
}

// receiverOf returns the supplier's receiver. Errors: errs.NotFound without the supplier, errs.Conflict when it has no
// receiver.
func receiverOf(ctx context.Context, of Destinations, supplierID string) (Receiver, error) {
	found, err := of.Receivers(ctx, []string{supplierID})
	receiver, known := found[supplierID]
	switch {
	case err != nil:
		return Receiver{}, fmt.Errorf("look up receiver: %w", err)
	case !known:
		return Receiver{}, errs.New(errs.NotFound, "There is no supplier with this id.")
	case receiver.URL == "":
		return Receiver{}, errs.New(errs.Conflict, "There is no receiver. Set its address first.")
	}
	return receiver, nil
}

// Receiver is where a supplier takes webhooks.
type Receiver = caller.Receiver

// Destinations returns the suppliers' receivers; a supplier that is unknown or has none is absent or without a URL.
type Destinations interface {
	Receivers(ctx context.Context, supplierIDs []string) (map[string]Receiver, error)
}
