package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/queue"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	longWait = 30 * time.Second

	repairRead = "the database answers, but not this query: repair what the error names, then run doctor again"
)

// examineWaiting reports how long requests wait, and whose the queue's stream has to be.
func (d *doctor) examineWaiting(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	const name = "waiting requests"
	counts, err := d.figures.Count(ctx)
	waiting := counts.Oldest
	if err == nil {
		d.installation, err = d.db.Installation(ctx)
	}
	switch {
	case err != nil:
		d.say(broken, name, repairRead, "they could not be counted: %v", err)
	case waiting > longWait:
		d.say(warning, name, "start a worker, or more of them; `api request list --status enqueued` shows which wait",
			"the oldest has waited %s for its estimates", waiting.Round(time.Second))
	default:
		d.say(well, name, "", "none has waited for long")
	}
}

// examineQueue asks NATS, or the api in which it runs.
func (d *doctor) examineQueue(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if d.cfg.Embedded() {
		d.examineOwnQueue(ctx)
		return
	}
	role := "api"
	if d.role == config.ForWorker {
		role = "worker"
	}
	cfg := d.queueConfig(role)
	cfg.Installation = d.installation
	found, err := queue.Examine(ctx, cfg, d.role == config.ForWorker)
	if err != nil {
		d.say(broken, "nats", "start it, or correct NATS_URL and its credentials", "it is not reached: %v", err)
		return
	}
	d.sayAnswers("nats", queue.Untested(found.Version), queue.OldestNATS, "%s answers", found.Server)
	d.sayProcess(ctx, role)
	d.sayEncrypted("nats encryption", found.Plain, "use tls:// in NATS_URL, and NATS_CA")
	if d.sayStream(found.Stream) {
		d.sayMessages(found)
	}
}

// sayProcess reports what the process of the role that runs on this machine, if one does, sees of the queue.
func (d *doctor) sayProcess(ctx context.Context, role string) {
	const name = "process"
	ask, address := APIHealth, cmp.Or(d.cfg.AdminAddr, defaultAPIAdmin)
	if d.role == config.ForWorker {
		ask, address = WorkerHealth, cmp.Or(d.cfg.AdminAddr, defaultWorkerAdmin)
	}
	health, err := ask(ctx, d.cfg)
	switch {
	case errors.Is(err, errNotReady):
		d.say(broken, name, "repair what its /readyz names", "the %s at %s is %v", role, address, err)
	case err != nil:
		d.say(well, name, "", "no %s answers at %s", role, address)
	case health.Checks["nats"] != well:
		d.say(warning, name, "repair what it names; workers find the work in the database meanwhile", "the %s at %s: %s", role,
			address, health.Checks["nats"])
	default:
		d.say(well, name, "", "the %s at %s: work travels by the queue", role, address)
	}
}

// sayStream reports whether the stream is there.
func (d *doctor) sayStream(err error) bool {
	const name = "nats stream"
	switch {
	case errors.Is(err, queue.ErrAbsent):
		d.say(warning, name, "start the api or a worker: each makes it", "%v", err)
	case err != nil:
		d.say(broken, name, "give the user the permissions of deployments/nats-users.conf, or repair the server", "%v", err)
	default:
		d.say(well, name, "", "it can be read")
	}
	return err == nil
}

// sayMessages reports whether a message was taken and, for a worker, came back.
func (d *doctor) sayMessages(found queue.Examination) {
	const name = "nats messages"
	switch {
	case found.Rights != nil:
		d.say(broken, name, "give the user the permissions of deployments/nats-users.conf", "%v", found.Rights)
	case found.Refused != nil:
		d.say(broken, name, "make room for the stream; workers find the work in the database meanwhile",
			"the queue takes no message: %v", found.Refused)
	case found.Unread != nil:
		d.say(broken, name, "repair what the error names; workers find the work in the database meanwhile",
			"the queue brings no message: %v", found.Unread)
	default:
		d.say(well, name, "", "this user may do all that the process does")
	}
}

// examineOwnQueue asks the api in which JetStream runs.
func (d *doctor) examineOwnQueue(ctx context.Context) {
	address := cmp.Or(d.cfg.AdminAddr, defaultAPIAdmin)
	health, err := APIHealth(ctx, d.cfg)
	switch {
	case err != nil:
		d.say(broken, "nats", "start `api serve`, or set ADMIN_ADDR as it has it", "JetStream runs inside the api at %s: %v",
			address, err)
	case health.Checks["nats"] != well:
		d.say(broken, "nats", "make room in DATA_DIR and restart the api; its log says more",
			"inside the api at %s: %s", address, health.Checks["nats"])
	default:
		d.say(well, "nats", "", "JetStream inside the api at %s answers", address)
	}
}

// examineEndpoint calls the own endpoint as the sender does, signed, with an event that it refuses once it trusts it.
func (d *doctor) examineEndpoint(ctx context.Context) {
	const name = "own endpoint"
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	base := d.cfg.BaseURL
	if base == "" {
		base = ownURL(d.cfg.HTTPAddr)
	}
	secrets, err := loadSecrets(d.cfg, true)
	if err != nil || len(secrets.webhooks) == 0 {
		d.say(broken, name, "set WEBHOOK_SIGNING_SECRETS", "there is no secret to sign with")
		return
	}
	status, err := d.callEndpoint(ctx, base, secrets.webhooks)
	switch {
	case err != nil:
		d.say(broken, name, "start the api, or correct ESTIMATES_WEBHOOK_BASE_URL", "%s does not answer: %v", base, err)
	case status == http.StatusUnauthorized:
		d.say(broken, name, "if this is another installation's api set HTTP_ADDR and ADMIN_ADDR as yours has them; "+
			"otherwise give both binaries the same WEBHOOK_SIGNING_SECRETS, and set the clocks by NTP",
			"%s refuses the signature", base)
	case status != http.StatusBadRequest:
		d.say(broken, name, "correct ESTIMATES_WEBHOOK_BASE_URL: this is not the api", "%s answers with status %d",
			base, status)
	default:
		d.say(well, name, "", "%s answers and takes the signature", base)
	}
}

func (d *doctor) callEndpoint(ctx context.Context, base string, secrets []webhook.Secret) (status int, err error) {
	const id, body = "doctor", "{}"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(base, "/")+
		"/api/material-requests/1/delivery-estimates", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	at := time.Now()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(webhook.HeaderID, id)
	request.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	request.Header.Set(webhook.HeaderSignature, webhook.Sign(id, at, []byte(body), secrets...))
	status, _, err = ask(request)
	return status, err
}

// examineReceivers reports how each supplier's receiver did last.
func (d *doctor) examineReceivers(ctx context.Context) {
	const name = "receivers"
	suppliers, err := d.Suppliers.ListSuppliers(ctx)
	if err != nil {
		d.say(broken, name, repairRead, "the suppliers could not be read: %v", err)
		return
	}
	suppliers = slices.DeleteFunc(suppliers, func(s supplierauth.Supplier) bool { return !s.Active || s.WebhookURL == "" })
	if len(suppliers) == 0 {
		d.say(well, name, "", "no supplier has one")
	}
	for _, s := range suppliers {
		if err := d.examineReceiver(ctx, s); err != nil {
			d.say(broken, "receiver of "+s.ID, repairRead, "its state could not be read: %v", err)
		}
	}
}

func (d *doctor) examineReceiver(ctx context.Context, s supplierauth.Supplier) error {
	name := fmt.Sprintf("receiver of %s (%q)", s.ID, s.Name)
	receivers, err := d.Suppliers.Receivers(ctx, []string{s.ID})
	if err != nil {
		return err
	}
	if len(receivers[s.ID].Secrets) == 0 {
		d.say(broken, name, "put the key that sealed it into SECRETS_KEY, or run `api supplier rotate-webhook-secret "+s.ID+
			"`", "its signing secret cannot be opened")
		return nil
	}
	state, err := d.Deliveries.ReceiverState(ctx, s.ID)
	if err != nil {
		return err
	}
	switch {
	case state.PausedBy != "":
		why := map[bool]string{true: ": it answered 410"}[state.Condition().Gone()]
		d.say(warning, name, "run `api supplier resume "+s.ID+"` when it works again; `api receiver list` shows what waits",
			"paused by the %s%s", state.PausedBy, why)
	case state.Failing():
		d.say(warning, name, "send the supplier the link of `api supplier portal-link "+s.ID+"`; "+
			"`api receiver list` shows what waits",
			"failing, %d times in a row: %s", state.Failures, state.LastError)
	case state.LastSuccess == nil && state.LastFailure == nil:
		d.say(well, name, "", "never called yet")
	case state.LastSuccess == nil:
		d.say(well, name, "", "its last %d calls failed: %s", state.Failures, state.LastError)
	default:
		d.say(well, name, "", "last success %s", state.LastSuccess.UTC().Format(time.RFC3339))
	}
	return nil
}
