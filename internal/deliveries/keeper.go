package deliveries

import (
	"context"
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/round"
)

// RequestLedger keeps what the end of a delivery to the own endpoint means to the round's request, and its redelivery.
// Both join the transaction in ctx: a request is failed when its delivery is lost, and enqueued when that is sent
// again, or neither happens. Package materials implements it and locks the requests after the deliveries.
type RequestLedger interface {
	MarkFailed(ctx context.Context, r round.Round, reason string) error  // the schedule is used up
	MarkRefused(ctx context.Context, r round.Round, reason string) error // the answer was final
	MarkRedelivered(ctx context.Context, rounds ...round.Round) error
}

// KeeperDeps is what a Keeper is built from.
type KeeperDeps struct {
	DB       *database.DB
	Log      *slog.Logger
	Now      func() time.Time
	Ledger   RequestLedger   // nil: requests do not hear of it
	Notifier notice.Notifier // nil: the operator is not notified
	Stuck    time.Duration   // after which an attempt should have ended, with its result written
}

// Keeper lists, redelivers, verifies and deletes what is kept of events, deliveries and attempts. It sends nothing: the
// owner of the supplier finds what it makes due. It is safe for concurrent use.
type Keeper struct {
	deps    KeeperDeps
	store   *store
	due     *DueStore
	notices notice.Notifier
	turn    chan struct{} // is full while a page of a recovery is written: one at a time in this process
}

// NewKeeper builds it.
func NewKeeper(deps KeeperDeps) *Keeper {
	return &Keeper{deps: deps, store: &store{Tables{deps.DB}}, due: &DueStore{Tables{deps.DB}},
		notices: notice.OrNone(deps.Notifier), turn: make(chan struct{}, 1)}
}
