package receivers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	testsAMinute = 10
	testWindow   = time.Minute
)

// TestResult is what a test call came to.
type TestResult struct {
	ID         string  `json:"id"`
	URL        string  `json:"url"` // that was called, without the values of a query
	Status     *int    `json:"status"`
	Error      *string `json:"error"` // why the receiver did not take the call; nil: it did
	DurationMS int64   `json:"duration_ms"`
	Response   string  `json:"response"`
}

// Test makes one signed call to where deliveries go, now, for request 0. It is not retried, not stored and not counted
// as a failure, and a pause does not stop it. Errors: errs.Conflict without a receiver, errs.Exhausted.
func (s *SelfService) Test(ctx context.Context, supplierID string) (TestResult, error) {
	receiver, err := receiverOf(ctx, s.deps.Accounts, supplierID)
	if err != nil {
		return TestResult{}, err
	}
	if !receiver.Active {
		return TestResult{}, errs.New(errs.Conflict, "The supplier is deactivated: its receiver is not called.")
	}
	if err := s.allowTest(ctx, supplierID); err != nil {
		return TestResult{}, err
	}
	at := s.deps.Now()
	body, err := json.Marshal(testEvent(supplierID, at))
	if err != nil {
		return TestResult{}, fmt.Errorf("encode test event: %w", err)
	}
	result := TestResult{ID: "msg_test_" + strings.ToLower(rand.Text()),
		URL: caller.ShownURL(caller.CallURL(receiver.URL, 0))}
	begun := time.Now()
	answer := s.deps.Calls.TestCall(ctx, supplierID, result.ID, receiver, body)
	result.DurationMS = time.Since(begun).Milliseconds()
	result.Response = strings.ToValidUTF8(string(answer.Body), "\uFFFD")
	if answer.Err != nil {
		result.Error = new(deliveries.PublicError(answer.Err.Error()))
		return result, nil
	}
	result.Status = &answer.Status
	if cause := answer.Cause(); cause != "" {
		result.Error = &cause
	}
	return result, nil
}

// testEvent has no estimates: a receiver that takes it for real finds nothing in it.
func testEvent(supplierID string, at time.Time) any {
	type data struct {
		SupplierID string `json:"supplier_id"`
		RequestID  int64  `json:"request_id"`
	}
	return struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      data      `json:"data"`
	}{webhook.TypeTest, at.UTC().Truncate(time.Second), data{SupplierID: supplierID}}
}

// allowTest counts a test call over all replicas. Errors: errs.Exhausted with the time to wait. It is committed before
// the call is made: one whose process dies counts, and none is made that was not counted.
func (s *SelfService) allowTest(ctx context.Context, supplierID string) error {
	return s.deps.DB.InTx(ctx, "count a test call", func(ctx context.Context) error {
		recent, err := s.deps.Receivers.health.lockTests(ctx, supplierID)
		if err != nil {
			return err
		}
		now := s.deps.Now()
		recent = slices.DeleteFunc(recent, func(at int64) bool { // older, or of a clock that was set back
			return at <= now.Add(-testWindow).UnixMicro() || at > now.Add(database.ClockApart).UnixMicro()
		})
		if len(recent) >= testsAMinute {
			return errs.NewExhausted(fmt.Sprintf("At most %d test calls a minute are made.", testsAMinute),
				time.UnixMicro(recent[len(recent)-testsAMinute]).Add(testWindow).Sub(now))
		}
		return s.deps.Receivers.health.saveTests(ctx, supplierID, append(recent, now.UnixMicro()))
	})
}
