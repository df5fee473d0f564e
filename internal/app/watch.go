package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/sleep"
	"github.com/supplyhub/supplyhub/internal/telemetry"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// How often a process looks whether what was configured works.
const (
	lookAgain  = 10 * time.Minute
	lookSooner = 5 * time.Second                                           // while it does not
	unsampled  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00" // these calls belong to no trace

	failsFor = 2 // looks in a row: at a start the other side may be starting too
)

// watches is why something that was configured does not work, by name, for /readyz.
type watches struct {
	mu     sync.Mutex
	faults map[string]error
}

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
		a.watches.set(name, err)
		sleep.For(ctx, every)
	}
	return nil
}

func (w *watches) set(name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults == nil {
		w.faults = map[string]error{}
	}
	w.faults[name] = err
}

// add adds what does not work to what /readyz reports.
func (w *watches) add(checks map[string]error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, err := range w.faults {
		if err != nil {
			checks[name] = telemetry.Degraded{Err: err}
		}
	}
}

// watchKeys looks whether SECRETS_KEY opens what is stored.
func (a *pipeline) watchKeys(ctx context.Context) error {
	return a.watch(ctx, "SECRETS_KEY", 1, a.Suppliers.CheckSecrets)
}

// watchEndpoint looks whether the own endpoint is reached.
func (a *pipeline) watchEndpoint(ctx context.Context) error {
	return a.watch(ctx, "ESTIMATES_WEBHOOK_BASE_URL", failsFor, func(ctx context.Context) error {
		if _, fault, _ := a.callEndpoint(ctx); fault != nil {
			return fault
		}
		return nil
	})
}

// callEndpoint calls the own endpoint as the sender does, signed, with an event that it refuses once it trusts it. It
// returns where that is, what is wrong with it, and what to do.
func (a *pipeline) callEndpoint(ctx context.Context) (base string, fault error, todo string) {
	base = strings.TrimRight(cmp.Or(a.cfg.BaseURL, ownURL(a.cfg.HTTPAddr)), "/")
	secrets, err := loadSecrets(a.cfg, true)
	if err != nil || len(secrets.webhooks) == 0 {
		return base, errors.New("there is no secret to sign with"), "set WEBHOOK_SIGNING_SECRETS"
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	status, _, err := signedCall(ctx, base+"/api/material-requests/1/delivery-estimates", "doctor", "{}", secrets.webhooks)
	switch {
	case err != nil:
		return base, fmt.Errorf("%s does not answer: %w", base, err), "start the api, or correct ESTIMATES_WEBHOOK_BASE_URL"
	case status == http.StatusUnauthorized:
		return base, fmt.Errorf("%s refuses the signature", base),
			"if this is another installation's api set HTTP_ADDR and ADMIN_ADDR as yours has them; " +
				"otherwise give both binaries the same WEBHOOK_SIGNING_SECRETS, and set the clocks by NTP"
	case status != http.StatusBadRequest:
		return base, fmt.Errorf("%s answers with status %d", base, status),
			"correct ESTIMATES_WEBHOOK_BASE_URL: this is not the api"
	default:
		return base, nil, ""
	}
}

// signedCall sends an event and returns the status and the first KiB of the answer.
func signedCall(ctx context.Context, address, id, body string, secrets []webhook.Secret) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	at := time.Now()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("traceparent", unsampled)
	request.Header.Set(webhook.HeaderID, id)
	request.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	request.Header.Set(webhook.HeaderSignature, webhook.Sign(id, at, []byte(body), secrets...))
	status, text, err := ask(request)
	return status, strings.ToValidUTF8(string(text[:min(len(text), 1<<10)]), "\uFFFD"), err
}
