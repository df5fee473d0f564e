package receivers

import (
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/notice"
)

// RegistryDeps is what a Registry is built from.
type RegistryDeps struct {
	DB         *database.DB
	Log        *slog.Logger
	Now        func() time.Time
	Deliveries *deliveries.Keeper
	Addresses  Destinations    // whose receivers may be paused and resumed
	Notifier   notice.Notifier // nil: the operator is not notified
	PauseAfter time.Duration   // after which of failures only a receiver is paused; 0: never
	// wakes the worker that serves the supplier, after a pause and when waiting deliveries are due
	Announce func(paused bool, supplierID string)
}

// Registry keeps how suppliers' receivers are: the results of their last calls, and who paused them. It is safe for
// concurrent use. Every process has one: workers learn and store, apis and commands pause, resume and show.
type Registry struct {
	deps    RegistryDeps
	health  *healthStore
	due     *deliveries.DueStore
	news    *healthLog
	notices notice.Notifier
}

// NewRegistry builds it.
func NewRegistry(deps RegistryDeps) *Registry {
	return &Registry{deps: deps, health: &healthStore{deliveries.NewTables(deps.DB)},
		due: deliveries.NewDueStore(deps.DB), news: newHealthLog(),
		notices: notice.OrNone(deps.Notifier)}
}
