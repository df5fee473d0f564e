package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/sending"
	"github.com/supplyhub/supplyhub/internal/sleep"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// How often a process looks whether what was configured works.
const (
	lookAgain  = time.Minute
	lookSooner = 5 * time.Second // while it does not

	failsFor = 2 // looks in a row: at a start the other side may be starting too
)

// watch looks again and again until ctx ends. A fault is said in the log, once a minute, and in /readyz. It makes
// nothing unready: all other work is done.
func (a *pipeline) watch(ctx context.Context, name string, patience int, look func(context.Context) error) error {
	for failures := 0; ctx.Err() == nil; {
		err, every := look(ctx), lookAgain
		if failures++; err == nil {
			failures = 0
		} else {
			every = lookSooner
		}
		if err != nil && failures < patience {
			err = nil
		}
		if err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, name+" does not work", "error", errs.Wrap(errs.Unavailable, errs.Text(err), nil))
		}
		a.watches.Store(name, err)
		sleep.For(ctx, every)
	}
	return nil
}

// checks returns what /readyz of a process reports. worked is why work does not come by the queue.
func (a *pipeline) checks(ctx context.Context, worked error) map[string]error {
	checks := map[string]error{"database": a.db.Ping(ctx), "nats": worked}
	for name, fault := range a.watches.Range {
		if err, broken := fault.(error); broken {
			checks[name.(string)] = telemetry.Degraded{Err: err} //nolint:forcetypeassert // watch's names
		}
	}
	if !a.ready.Load() {
		checks["draining"] = errors.New("the process is stopping")
	}
	return checks
}

// watchKeys looks whether SECRETS_KEY opens what is stored.
func (a *pipeline) watchKeys(ctx context.Context) error {
	return a.watch(ctx, "SECRETS_KEY", 1, a.Suppliers.CheckSecrets)
}

// watchEndpoint looks whether the own endpoint is reached.
func (a *pipeline) watchEndpoint(ctx context.Context) error {
	return a.watch(ctx, "ESTIMATES_WEBHOOK_BASE_URL", failsFor, func(ctx context.Context) error {
		_, _, fault := a.callEndpoint(ctx)
		return fault
	})
}

// callEndpoint calls the own endpoint as the sender does, signed, with an event that it refuses once it trusts it. It
// returns where that is, what is wrong with it, and what to do.
func (a *pipeline) callEndpoint(ctx context.Context) (base, todo string, fault error) {
	base = strings.TrimRight(cmp.Or(a.cfg.BaseURL, ownURL(a.cfg.HTTPAddr)), "/")
	secrets, err := loadSecrets(a.cfg, true)
	if err != nil || len(secrets.webhooks) == 0 {
		return base, "set WEBHOOK_SIGNING_SECRETS", errors.New("there is no secret to sign with")
	}
	answer := sending.TryOperator(ctx, receivers.Receiver{URL: base + "/api/material-requests/1/delivery-estimates",
		Secrets: secrets.webhooks, Active: true}, "doctor", []byte("{}"), a.db.Now(), a.cfg.Timeout)
	switch status := answer.Status; {
	case answer.Err != nil:
		return base, "start the api, or correct ESTIMATES_WEBHOOK_BASE_URL",
			fmt.Errorf("%s does not answer: %w", base, answer.Err)
	case status == http.StatusUnauthorized:
		return base, "if this is another installation's api set HTTP_ADDR and ADMIN_ADDR as yours has them; " +
				"otherwise give both binaries the same WEBHOOK_SIGNING_SECRETS, and set the clocks by NTP",
			fmt.Errorf("%s refuses the signature", base)
	case status >= http.StatusInternalServerError:
		return base, "look at the api's /readyz; if it is ready, at the proxy before it",
			fmt.Errorf("%s answers with status %d", base, status)
	case status != http.StatusBadRequest:
		return base, "correct ESTIMATES_WEBHOOK_BASE_URL: this is not the api",
			fmt.Errorf("%s answers with status %d", base, status)
	default:
		return base, "", nil
	}
}
