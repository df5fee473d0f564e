package materials

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Accepting a request, step by step: the caller's goroutine makes the canonical form and its digest and waits in a
// batch; one statement inserts the batch, in the one order in which all batches lock; after its COMMIT the new
// requests are published to the queue, and each caller gets its answer. 201 means stored. A process that dies before
// the COMMIT has stored nothing and answered no caller of the batch; one that dies after it has left rows that are due.
//
// A request whose id is taken is compared by its digest: the equal one is accepted again and stored once, a different
// one is a conflict.

const (
	intakeBatch   = 128              // requests that share a statement
	intakeTimeout = 10 * time.Second // for that statement
)

// intakeItem is a request on its way into the database. Until the COMMIT it is in the memory of this process alone, and
// its caller has no answer.
type intakeItem struct {
	requestKey
	shopCode, traceID, traceParent string
	digest                         []byte
	body                           []byte // as JSON
}

// Submit stores the request durably and hands it to the queue without waiting. The equal request again is stored
// and processed once. errs.Conflict: a different request of the supplier has the id; errs.Unavailable: nothing is
// known to be stored, the caller may repeat it.
func (s *Service) Submit(ctx context.Context, r Request) error {
	text, digest, err := r.canonical()
	if err != nil {
		return fmt.Errorf("submit request: %w", err)
	}
	item := intakeItem{requestKey: requestKey{r.SupplierID, r.ID}, shopCode: r.ShopCode, body: text,
		traceID: r.TraceID, traceParent: r.TraceParent, digest: digest}
	accepted, err := s.intake.Hold(ctx, item)
	switch {
	case err != nil:
		return fmt.Errorf("submit request: %w", err)
	case !accepted:
		return errs.New(errs.Conflict, "You have another request with this id.")
	default:
		return nil
	}
}

// newIntakeBatcher starts the intake's batches. None lingers: a request that comes alone is stored at once.
func newIntakeBatcher(s *Service) *groupcommit.Batcher[intakeItem, bool] {
	return groupcommit.New(s.deps.Flushers, intakeBatch, 0, s.flushIntake)
}

// flushIntake stores a batch, publishes what is new and returns for each item whether it is what is stored under its
// id. The batch belongs to no single caller, so nothing of its context is used. Publishing comes after the COMMIT and
// waits for nothing; a process that dies in between leaves rows that are due, which their owners find. Every caller of
// a batch whose COMMIT got no answer is answered that the service is unavailable, and repeats: the digest then
// decides.
func (s *Service) flushIntake(_ context.Context, items []intakeItem) ([]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), intakeTimeout)
	defer cancel()
	first := firstOfEach(items, func(item intakeItem) requestKey { return item.requestKey })
	packBodies(first)
	uids, err := s.store.insert(ctx, first, s.deps.Now())
	if err != nil {
		return nil, err
	}
	stored := make(map[requestKey][]byte, len(first))
	fresh := make([]round.Round, 0, len(first))
	var before []requestKey
	for _, item := range first {
		uid, inserted := uids[item.requestKey]
		if !inserted {
			before = append(before, item.requestKey)
			continue
		}
		stored[item.requestKey] = item.digest
		fresh = append(fresh, round.Round{SupplierID: item.SupplierID, RequestID: item.ID, UID: uid, Number: 1})
	}
	s.deps.Publisher.Publish(fresh...)
	if err := s.store.addDigests(ctx, before, stored); err != nil {
		return nil, err
	}
	return lists.Of(items, func(item intakeItem) bool { return bytes.Equal(stored[item.requestKey], item.digest) }), nil
}

// packBodies makes the bodies what is stored of them. The encoder needs much of a stack: few goroutines shall have it.
func packBodies(items []intakeItem) {
	for i := range items {
		items[i].body = pack.Pack(items[i].body)
	}
}

// firstOfEach returns a batch's items, the first of each key, in the one order in which all batches lock rows.
func firstOfEach[T any](items []T, key func(T) requestKey) []T {
	first := slices.Clone(items)
	slices.SortStableFunc(first, func(a, b T) int { return key(a).compare(key(b)) })
	return slices.CompactFunc(first, func(a, b T) bool { return key(a) == key(b) })
}
