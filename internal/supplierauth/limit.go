package supplierauth

import (
	"fmt"
	"math"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// Each process counts a supplier's rate by itself: with n replicas a supplier has n times as much. This protects the
// replicas well enough, and costs no query.

// limitedSuppliers is how many suppliers' buckets are remembered; a forgotten one is full again.
const limitedSuppliers = 65536

// limiter gives each supplier so many requests a second in this process, and as many at once. nil limits none.
type limiter struct {
	perSecond int
	now       func() time.Time // monotonic
	buckets   *lru.Cache[string, *rate.Limiter]
}

// newLimiter returns the buckets of suppliers; nil when there is no limit.
func newLimiter(perSecond int, now func() time.Time) *limiter {
	if perSecond <= 0 {
		return nil
	}
	buckets, _ := lru.New[string, *rate.Limiter](limitedSuppliers) // it fails without a size alone
	return &limiter{perSecond, now, buckets}
}

// allow takes one request of the supplier's. Errors: errs.Exhausted with the time to wait.
func (l *limiter) allow(supplierID string) error {
	if l == nil {
		return nil
	}
	bucket, known := l.buckets.Get(supplierID)
	if !known {
		bucket = rate.NewLimiter(rate.Limit(l.perSecond), l.perSecond)
		if before, found, _ := l.buckets.PeekOrAdd(supplierID, bucket); found {
			bucket = before
		}
	}
	now := l.now()
	if bucket.AllowN(now, 1) {
		return nil
	}
	missing := 1 - bucket.TokensAt(now)
	wait := time.Duration(math.Ceil(missing / float64(l.perSecond) * float64(time.Second)))
	return errs.NewExhausted(fmt.Sprintf("You may send %d requests a second.", l.perSecond), wait)
}

// admit counts a call with a key or a refresh token once its supplier is found. It then refuses the call with the fault
// of the rest of it, if there is one. A call without a supplier is refused later. Errors: errs.Exhausted, the search's,
// the fault.
func (s *Service) admit(fault error, find func() (supplierID string, err error)) error {
	if s.limiter == nil && fault == nil {
		return nil
	}
	supplierID, err := find()
	if err != nil || supplierID == "" {
		return err
	}
	if err := s.limiter.allow(supplierID); err != nil {
		return err
	}
	return fault
}
