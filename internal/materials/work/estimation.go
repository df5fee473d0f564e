package work

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	estimateTimeout = 10 * time.Second       // for the estimation of one request
	slowAfter       = 250 * time.Millisecond // so long a batch waits for its slowest
)

// estimateAll fills in each request's event or err. All run at once. Those that are late leave the batch, and are
// stored when they end. An error says nothing of any single one.
func (s *Service) estimateAll(ctx context.Context, requests []*pending) (inTime, late []*pending, err error) {
	products, err := s.products(ctx, requests)
	switch {
	case err == nil:
	case len(requests) == 1 && !errs.IsUnavailable(err):
		requests[0].err = cmp.Or(requests[0].err, err)
	default:
		return nil, nil, err
	}
	ended, running := make(chan *pending, len(requests)), map[*pending]bool{}
	for _, p := range requests {
		if p.err != nil {
			inTime = append(inTime, p)
			continue
		}
		running[p] = true
		go func() {
			ctx, cancel := context.WithTimeout(logctx.WithTraceParent(logctx.WithRequest(ctx, p.Round.SupplierID,
				p.Round.RequestID, p.TraceID), p.TraceParent), estimateTimeout)
			defer cancel()
			p.event, p.body, p.err = s.estimate(ctx, p, products)
			ended <- p
		}()
	}
	slow := time.NewTimer(slowAfter)
	defer slow.Stop()
	for len(running) > 0 {
		select {
		case p := <-ended:
			inTime = append(inTime, p)
			delete(running, p)
		case <-slow.C:
			s.estimating.Go(func() { s.storeLate(ended, len(running)) })
			return inTime, slices.Collect(maps.Keys(running)), nil
		}
	}
	return inTime, nil, nil
}

// storeLate stores n requests as their estimations end. They are in hand until then.
func (s *Service) storeLate(ended <-chan *pending, n int) {
	for range n {
		p := <-ended
		s.estimating.Go(func() {
			defer s.hand.done(p.Round)
			if _, err := s.late.Do(context.Background(), p); err != nil {
				s.deps.Log.Warn("store a slow estimation failed, the request stays due", "error", err)
			}
		})
	}
}

// products asks the catalogue once for the whole batch.
func (s *Service) products(ctx context.Context, requests []*pending) (
	map[estimates.ProductKey]estimates.Product, error) {
	ctx, cancel := context.WithTimeout(ctx, workStoreTimeout)
	defer cancel()
	wanted := make(map[estimates.ProductKey]bool)
	for _, p := range requests {
		for _, m := range p.Materials {
			wanted[estimates.ProductKey{SupplierID: p.Request.SupplierID, SKU: m.SKU}] = true
		}
	}
	if len(wanted) == 0 { // nothing of the batch is left to estimate
		return nil, nil
	}
	found, err := s.deps.Catalogue.Products(ctx, slices.Collect(maps.Keys(wanted)))
	return found, errs.Doing("look up products", err)
}

// estimate makes the event of one request. A panic of the estimator is this request's failure, not the worker's end.
func (s *Service) estimate(ctx context.Context, p *pending,
	products map[estimates.ProductKey]estimates.Product) (event webhook.Event, body []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errs.Wrap(errs.Invalid, "the estimator panicked", fmt.Errorf("%v", r))
		}
	}()
	now := s.deps.Now().UTC().Truncate(time.Microsecond)
	result, err := s.deps.Estimator.Estimate(ctx, estimates.Request{
		SupplierID: p.Request.SupplierID, RequestID: p.ID, UID: p.UID, Round: p.Number, Items: items(p.Request, products),
		At: now,
	})
	if err != nil {
		return webhook.Event{}, nil, err
	}
	if err := materials.CheckEstimates(result.Estimates, result.Unavailable); err != nil {
		return webhook.Event{}, nil, errs.Wrap(errs.Invalid, "the estimator's result breaks the rules", err)
	}
	event = webhook.Event{Type: webhook.TypeEstimated, Timestamp: now, Data: webhook.Data{
		SupplierID: p.Request.SupplierID, RequestID: p.ID, ShopCode: p.ShopCode,
		Estimates: materials.OrEmpty(result.Estimates), Unavailable: materials.OrEmpty(result.Unavailable),
	}}
	// Found out here, an event that JSON cannot hold fails alone instead of failing its whole batch in the outbox.
	if body, err = json.Marshal(event); err != nil {
		return webhook.Event{}, nil, errs.Wrap(errs.Invalid, "encode event", err)
	}
	return event, body, nil
}

// items returns a request's items as an estimator takes them.
func items(r materials.Request, products map[estimates.ProductKey]estimates.Product) []estimates.Item {
	items := make([]estimates.Item, len(r.Materials))
	for i, m := range r.Materials {
		items[i] = estimates.Item{SKU: m.SKU, Width: m.Width, Height: m.Height, Quantity: m.Quantity}
		if m.Depth != nil {
			items[i].Depth = *m.Depth
		}
		if product, known := products[estimates.ProductKey{SupplierID: r.SupplierID, SKU: m.SKU}]; known {
			items[i].Product = &product
		}
	}
	return items
}

const (
	invalidTries     = 10 // after so many an estimation that fails by its own input is given up
	invalidFirstWait = 500 * time.Millisecond
	invalidMaxWait   = 30 * time.Second
)

// Why a request is failed, in words for the supplier: the cause is in the log.
const (
	failureInvalid     = "The delivery estimates of this request could not be computed."
	failureUnavailable = "The delivery estimates could not be computed: " +
		"something they need was unavailable the whole time."
)

// ownFault reports whether the same input fails the same way again, whatever else is repaired meanwhile. Such an
// estimation is tried ten times, not by the schedule of what is unavailable.
func ownFault(err error) bool {
	return errs.KindOf(err) == errs.Invalid || errs.KindOf(err) == errs.Unprocessable
}

// nextTry returns the wait after the given number of failed estimations of a round; again is false when they were the
// last.
func nextTry(err error, tries int64, schedule []time.Duration) (wait time.Duration, again bool) {
	if ownFault(err) {
		return min(invalidFirstWait<<min(tries-1, 10), invalidMaxWait), tries < invalidTries
	}
	if tries > int64(len(schedule)) {
		return 0, false
	}
	return schedule[tries-1], true
}

// failed puts a round whose estimation came to nothing off, by its schedule, or fails its request.
func (s *Service) failed(p *pending) error {
	ctx, cancel := context.WithTimeout(logctx.WithRequest(context.Background(), p.Round.SupplierID, p.Round.RequestID,
		p.TraceID), workStoreTimeout)
	defer cancel()
	now, tries := s.deps.Now(), p.tries+1
	if wait, again := nextTry(p.err, tries, s.deps.Schedule); again {
		s.deps.Log.WarnContext(ctx, "estimation failed, it is tried again", "error", p.err, "tries", tries, "wait", wait)
		return s.store.tryAgain(ctx, p.Round, tries, now.Add(wait), now)
	}
	sentence := failureUnavailable
	if ownFault(p.err) {
		sentence = failureInvalid
	}
	_, moved, err := s.deps.Ledger.Fail(ctx, p.Round, sentence, p.err.Error())
	if err == nil && moved {
		s.deps.Log.ErrorContext(ctx, "material request failed: it cannot be estimated", "reason", p.err.Error(),
			"tries", tries)
	}
	return err
}
