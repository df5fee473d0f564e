package app

import (
	"context"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/notify"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/deliveries"
)

// openNotifier makes the operator's notifier; nil without OPERATOR_WEBHOOK_URL.
func (a *pipeline) openNotifier() *notify.Notifier {
	if a.cfg.EventsURL == "" {
		return nil
	}
	secrets, _ := config.ParseWebhookSecrets(a.cfg.EventsSecrets) // Load has checked them
	to := receivers.Receiver{URL: string(a.cfg.EventsURL), Secrets: secrets, Active: true}
	return notify.New(notify.Deps{
		DB: a.db, Log: a.log, Now: a.db.Now, Names: a.Suppliers.Names, Timeout: a.cfg.Timeout,
		Send: func(ctx context.Context, id string, body []byte, attempt int64) notify.Verdict {
			outcome, reason := a.Deliveries.SendToOperator(ctx, to, id, body, attempt)
			verdict := notify.Verdict{Delivered: outcome.Status == deliveries.Delivered, Reason: reason}
			if outcome.Status == deliveries.Pending {
				verdict.Again = outcome.Next
			}
			return verdict
		},
	})
}
