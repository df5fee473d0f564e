package materials

import (
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// Service implements the lifecycle of material requests. It is safe for concurrent use.
type Service struct {
	deps     Deps
	store    *store
	intake   *groupcommit.Batcher[intakeItem, bool]
	receipts *groupcommit.Batcher[receiptItem, receiptResult]
	waiters  *waiters
}

// New builds the room and starts its group commits; Close ends them.
func New(deps Deps) *Service {
	if deps.TraceParent == nil {
		deps.TraceParent = logctx.TraceParent
	}
	s := &Service{deps: deps, store: &store{deps.DB}}
	s.intake, s.receipts = newIntakeBatcher(s), newReceiptBatcher(s)
	s.waiters = newWaiters(s.store.left)
	return s
}

// Close refuses new writes, finishes those begun and waits for them.
func (s *Service) Close() {
	s.waiters.close()
	s.intake.Close()
	s.receipts.Close()
}
