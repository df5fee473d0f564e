package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/queue"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
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
	work := d.examineProcesses(ctx)
	counts, err := d.figures.Count(ctx)
	waiting := counts.Oldest
	if err == nil {
		d.installation, err = d.db.Installation(ctx)
	}
	switch {
	case err != nil:
		d.say(broken, name, repairRead, "they could not be counted: %v", err)
	case waiting > longWait:
		todo := "start a worker"
		if work {
			todo = "look at what is said of the own endpoint and at the worker's log, or start more workers"
		}
		d.say(warning, name, todo+"; `api request list --status enqueued` shows which wait",
			"the oldest has waited %s for its estimates", waiting.Round(time.Second))
	default:
		d.say(well, name, "", "none has waited for long")
	}
}

// examineProcesses prints which processes recorded their work lately, and reports whether one of them is a worker.
func (d *doctor) examineProcesses(ctx context.Context) (work bool) {
	const name = "processes"
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found, err := d.figures.Processes(ctx)
	var shown []string
	for _, p := range found {
		shown = append(shown, fmt.Sprintf("%s %s since %s", p.Role, p.Version, p.Since.Format(time.RFC3339)))
		work = work || p.Works()
	}
	switch {
	case err != nil:
		d.say(broken, name, repairRead, "they could not be read: %v", err)
	case len(found) > 0 && !work:
		d.say(warning, name, "start a worker: requests are accepted and wait", "no worker runs; %s",
			strings.Join(shown, ", "))
	case len(found) == 0:
		d.say(well, name, "", "none runs")
	default:
		d.say(well, name, "", "%s", strings.Join(shown, ", "))
	}
	return work
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
		d.say(warning, name, "repair what it names; workers find the work in the database meanwhile", "the %s at %s: %s",
			role,
			address, health.Checks["nats"])
	default:
		d.say(well, name, "", "the %s at %s: work travels by the queue", role, address)
	}
}

// sayStream reports whether the stream is there.
func (d *doctor) sayStream(err error) bool {
	const name = "nats stream"
	foreign, isForeign := errors.AsType[queue.ForeignError](err)
	switch {
	case errors.Is(err, queue.ErrAbsent):
		d.say(warning, name, "start the api or a worker: each makes it", "%v", err)
	case isForeign:
		d.say(broken, name, foreign.Todo, "%s", foreign.Text)
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

// examineEndpoint calls the own endpoint.
func (d *doctor) examineEndpoint(ctx context.Context) {
	base, fault, todo := d.callEndpoint(ctx)
	if fault != nil {
		d.say(broken, "own endpoint", todo, "%v", fault)
		return
	}
	d.say(well, "own endpoint", "", "%s answers and takes the signature", base)
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
