package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/notify"
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
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	status, answer, err := signedCall(ctx, string(cfg.EventsURL), id, string(body), secrets)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the address, which may hold a key
	}
	if err != nil {
		return NoticeTest{}, fmt.Errorf("OPERATOR_WEBHOOK_URL does not answer: %w", err)
	}
	return NoticeTest{id, status, time.Since(begun).Milliseconds(), answer}, nil
}

// Taken reports whether the receiver took the event.
func (n NoticeTest) Taken() bool {
	return n.Status >= http.StatusOK && n.Status < http.StatusMultipleChoices
}

// examineEvents sends a test event to where operator events go.
func (d *doctor) examineEvents(ctx context.Context) {
	const name, todo = "operator events", "correct OPERATOR_WEBHOOK_URL, or repair what it names; `api notify test` tries again"
	if d.cfg.EventsURL == "" {
		return
	}
	switch sent, err := TestNotice(ctx, d.cfg); {
	case err != nil:
		d.say(broken, name, todo, "%v", err)
	case !sent.Taken():
		d.say(broken, name, todo, "OPERATOR_WEBHOOK_URL answers %d to a test event", sent.Status)
	default:
		d.say(well, name, "", "OPERATOR_WEBHOOK_URL answers %d to a test event", sent.Status)
	}
}
