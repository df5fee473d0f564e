package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/notify"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/sending"
)

// NoticeTest is what a try of the operator's receiver came to.
type NoticeTest struct {
	ID         string `json:"id"`
	Status     int    `json:"status"`
	DurationMS int64  `json:"duration_ms"`
	Response   string `json:"response"` // the answer's first KiB
}

// TestNotice sends one signed event to OPERATOR_WEBHOOK_URL. It is an error when no answer comes.
func TestNotice(ctx context.Context, cfg *config.Config) (NoticeTest, error) {
	if cfg.EventsURL == "" {
		return NoticeTest{}, errors.New("OPERATOR_WEBHOOK_URL is not set: no operator events are sent")
	}
	secrets, err := config.ParseWebhookSecrets(cfg.EventsSecrets)
	if err != nil {
		return NoticeTest{}, fmt.Errorf("OPERATOR_WEBHOOK_SECRET: %w", err)
	}
	begun := time.Now()
	id, body, err := notify.TestEvent(begun)
	if err != nil {
		return NoticeTest{}, err
	}
	answer := sending.TryOperator(ctx, receivers.Receiver{URL: string(cfg.EventsURL), Secrets: secrets, Active: true}, id,
		body, begun, cfg.Timeout)
	if answer.Err != nil {
		return NoticeTest{}, fmt.Errorf("OPERATOR_WEBHOOK_URL does not answer: %w", answer.Err)
	}
	return NoticeTest{id, answer.Status, time.Since(begun).Milliseconds(),
		strings.ToValidUTF8(string(answer.Body), "\uFFFD")}, nil
}

// Taken reports whether the receiver took the event.
func (n NoticeTest) Taken() bool {
	return n.Status >= http.StatusOK && n.Status < http.StatusMultipleChoices
}
