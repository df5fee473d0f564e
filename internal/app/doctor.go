package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/doctor"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/telemetry"
	"github.com/supplyhub/supplyhub/internal/tracker"
)

// Package doctor looks at the servers; this file looks at the addresses and at what the features keep.

const (
	longWait   = 30 * time.Second
	repairRead = "the database answers, but this query failed: repair what the error names, then run doctor again"
)

// examination looks at everything that a process of the role needs. It changes nothing.
type examination struct {
	pipeline
	*doctor.Checkup
	role         config.Role
	installation string // empty while the database has not said it
}

// DoctorAPI looks at everything that the api needs in this environment.
func DoctorAPI(ctx context.Context, environ map[string]string) doctor.Checkup {
	d := &examination{Checkup: doctor.New(), role: config.ForAPI}
	return d.examine(ctx, environ, d.trackers, d.public)
}

// DoctorWorker looks at everything that the worker needs in this environment. A worker serves no tracker listings, so
// it does not link their code.
func DoctorWorker(ctx context.Context, environ map[string]string) doctor.Checkup {
	d := &examination{Checkup: doctor.New(), role: config.ForWorker}
	return d.examine(ctx, environ, func(context.Context) {}, func() {})
}

// examine looks at the parts that both roles have. listings and public look at those that only the api has.
func (d *examination) examine(ctx context.Context, environ map[string]string, listings func(context.Context),
	public func()) doctor.Checkup {
	if !d.configured(environ) {
		return *d.Checkup
	}
	if d.opened(ctx) {
		d.stored(ctx, listings)
	} else {
		d.Say(doctor.Warning, "own endpoint", "first repair what is listed above", "not checked")
		d.Say(doctor.Warning, "receivers", "first repair what is listed above", "not checked")
		d.queued(ctx)
	}
	public()
	d.events(ctx)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
		// webhooks use no proxy: a worker must know where a call ends before it makes it
		if environ[name] != "" {
			d.Say(doctor.Warning, "proxy",
				"let the workers reach receivers directly; WEBHOOK_DENY_NETWORKS keeps them out of your networks",
				"%s is set: calls to the scoreboard's providers and traces use it; webhooks, PostgreSQL and NATS do not",
				name)
			break
		}
	}
	d.providers(ctx)
	return *d.Checkup
}

// configured reports whether the configuration can be used, and prints its faults.
func (d *examination) configured(environ map[string]string) bool {
	cfg, _, err := Configure(environ, d.role, io.Discard)
	if err != nil {
		for fault := range strings.Lines(err.Error()) {
			d.Say(doctor.Broken, "configuration", "correct the variable", "%s", strings.TrimSpace(fault))
		}
		return false
	}
	d.pipeline = pipeline{cfg: cfg, log: slog.New(slog.DiscardHandler), registry: telemetry.NewRegistry()}
	d.Well("configuration", "every variable can be read")
	for _, warned := range config.Misspelled(environ) {
		d.Say(doctor.Warning, "configuration", "correct the name", "%v", warned)
	}
	return true
}

// opened builds the pipeline and reports whether that worked. It connects to nothing and creates nothing.
func (d *examination) opened(ctx context.Context) bool {
	if _, err := os.Stat(d.cfg.SQLitePath()); d.cfg.DatabaseURL == "" && errors.Is(err, fs.ErrNotExist) {
		d.Say(doctor.Broken, "database", "start `api serve` once, or set DATA_DIR or DATABASE_URL",
			"DATA_DIR (%s) has none", d.cfg.DataDir)
		return false
	}
	err := d.open(ctx, use{profile: database.Serving, noReaders: d.role != config.ForAPI, asItIs: true})
	if err != nil {
		d.Say(doctor.Broken, "database", "correct DATABASE_URL, or let this user read and write DATA_DIR",
			"it cannot be opened: %v", err)
	}
	return err == nil
}

// stored looks at the database and its data, the queue, the own endpoint and the receivers.
func (d *examination) stored(ctx context.Context, listings func(context.Context)) {
	defer func() { _ = d.Close() }() // nothing was changed
	login := map[config.Role]string{config.ForAPI: "supplyhub_api", config.ForWorker: "supplyhub_worker"}[d.role]
	reached := d.Database(ctx, d.db, login, d.role == config.ForAPI)
	if reached {
		d.partitions(ctx)
		d.waiting(ctx)
		listings(ctx)
	}
	d.queued(ctx)
	base, todo, fault := d.callEndpoint(ctx)
	d.Tried(fault, "own endpoint", todo, "", "%s answers and accepts the signature", base)
	if !reached {
		d.Say(doctor.Warning, "receivers", "repair the database first", "not checked")
		return
	}
	d.receivers(ctx)
}

func (d *examination) partitions(ctx context.Context) {
	if d.role != config.ForAPI || d.cfg.Retention == 0 || d.db.Engine() != database.Postgres {
		return
	}
	const name = "retention"
	list, err := d.Deliveries.Partitions(ctx)
	if err != nil {
		d.Say(doctor.Broken, name, "run deployments/postgres-roles.sql as the owner, with the part for RETENTION_DAYS",
			"%v", err)
		return
	}
	var kept []string
	for _, p := range list {
		if p.Kept != "" {
			kept = append(kept, p.Name+" ("+p.Kept+")")
		}
	}
	if len(kept) > 0 {
		d.Say(doctor.Warning, name, "`api delivery list --status pending` shows what waits; resume or end it, "+
			"then run `api retention run`", "retention keeps old partitions of events: %s", strings.Join(kept, ", "))
		return
	}
	d.Well(name, "%d partitions of events are in use, and no old one is kept", len(list))
}

// waiting prints how long requests wait. It also reads which installation the queue's stream must belong to.
func (d *examination) waiting(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, doctor.Timeout)
	defer cancel()
	const name = "waiting requests"
	todo := "start a worker"
	if d.processes(ctx) {
		todo = "see the own endpoint below and the worker's log, or start more workers"
	}
	counts, err := d.figures.Count(ctx)
	if err == nil {
		d.installation, err = d.db.Installation(ctx)
	}
	if err == nil && counts.Oldest > longWait {
		d.Say(doctor.Warning, name, todo+"; `api request list --status enqueued` shows them",
			"the oldest has waited %s for its estimates", counts.Oldest.Round(time.Second))
		return
	}
	d.Tried(err, name, repairRead, "they could not be counted: ", "none has waited long")
}

// processes prints which processes reported lately, and reports whether one of them is a worker.
func (d *examination) processes(ctx context.Context) (work bool) {
	const name = "processes"
	found, err := d.figures.Processes(ctx)
	list := make([]string, len(found))
	for i, p := range found {
		list[i] = fmt.Sprintf("%s %s since %s", p.Role, p.Version, p.Since.Format(time.RFC3339))
		work = work || p.Works()
	}
	shown := cmp.Or(strings.Join(list, ", "), "none runs")
	if len(found) > 0 && !work {
		d.Say(doctor.Warning, name, "start a worker: requests are accepted and wait", "no worker runs; %s", shown)
		return false
	}
	d.Tried(err, name, repairRead, "they could not be read: ", "%s", shown)
	return work
}

// queued looks at the queue, and asks the process on this machine about it.
func (d *examination) queued(ctx context.Context) {
	role, ask, address := "api", APIHealth, cmp.Or(d.cfg.AdminAddr, defaultAPIAdmin)
	if d.role == config.ForWorker {
		role, ask, address = "worker", WorkerHealth, cmp.Or(d.cfg.AdminAddr, defaultWorkerAdmin)
	}
	cfg := d.queueConfig(role)
	cfg.Installation = d.installation
	d.Queue(ctx, cfg, d.role == config.ForWorker, func(ctx context.Context) doctor.Health {
		health, err := ask(ctx, d.cfg)
		return doctor.Health{Role: role, Address: address, Queue: health.Checks["nats"], Err: err,
			NotReady: errors.Is(err, errNotReady)}
	})
}

// receivers prints how the last calls of each supplier's receiver went.
func (d *examination) receivers(ctx context.Context) {
	const name = "receivers"
	suppliers, err := d.Suppliers.ListSuppliers(ctx)
	suppliers = slices.DeleteFunc(suppliers, func(s supplierauth.Supplier) bool { return !s.Active || s.WebhookURL == "" })
	if err != nil || len(suppliers) == 0 {
		d.Tried(err, name, repairRead, "the suppliers could not be read: ", "no supplier has one")
	}
	for _, s := range suppliers {
		if err := d.receiver(ctx, s); err != nil {
			d.Say(doctor.Broken, "receiver of "+s.ID, repairRead, "its state could not be read: %v", err)
		}
	}
}

func (d *examination) receiver(ctx context.Context, s supplierauth.Supplier) error {
	name := fmt.Sprintf("receiver of %s (%q)", s.ID, s.Name)
	receivers, err := d.Suppliers.Receivers(ctx, []string{s.ID})
	if err != nil {
		return err
	}
	if len(receivers[s.ID].Secrets) == 0 {
		d.Say(doctor.Broken, name, "put the key that sealed it into SECRETS_KEY, or run `api supplier rotate-webhook-secret "+
			s.ID+"`", "its signing secret cannot be opened")
		return nil
	}
	state, err := d.Deliveries.ReceiverState(ctx, s.ID)
	if err != nil {
		return err
	}
	switch {
	case state.PausedBy != "":
		why := map[bool]string{true: ": it answered 410"}[state.Gone()]
		d.Say(doctor.Warning, name, "when it works again run `api supplier resume "+s.ID+"`; `api receiver list` shows what "+
			"waits", "paused by the %s%s", state.PausedBy, why)
	case state.Failing():
		d.Say(doctor.Warning, name, "send the supplier the link of `api supplier portal-link "+s.ID+"`; "+
			"`api receiver list` shows what waits", "failing, %d times in a row: %s", state.Failures, state.LastError)
	case state.LastSuccess == nil && state.LastFailure == nil:
		d.Well(name, "never called yet")
	case state.LastSuccess == nil:
		d.Well(name, "its last %d calls failed: %s", state.Failures, state.LastError)
	default:
		d.Well(name, "last success %s", state.LastSuccess.UTC().Format(time.RFC3339))
	}
	return nil
}

// trackers reads each view that a tracker client may see, and prints what listings leave out of it.
func (d *examination) trackers(ctx context.Context) {
	const name = "tracker views"
	ctx, cancel := context.WithTimeout(ctx, doctor.Timeout)
	defer cancel()
	trackers := tracker.New(tracker.Deps{DB: d.db, Log: d.log, Now: d.db.Now})
	defer trackers.Close()
	ailments, err := trackers.Ailments(ctx)
	whole := 0
	for _, view := range slices.Sorted(maps.Keys(ailments)) {
		if len(ailments[view]) == 0 {
			whole++
		}
		for _, ailment := range ailments[view] {
			d.Say(doctor.Warning, "tracker view "+view, "change the view, or `api tracker client set-views ID`", "%s", ailment)
		}
	}
	d.Tried(err, name, "repair the database first", "they could not be checked: ", "%d are shown in full", whole)
}

// events sends a test event to OPERATOR_WEBHOOK_URL.
func (d *examination) events(ctx context.Context) {
	if d.cfg.EventsURL == "" {
		return
	}
	sent, err := TestNotice(ctx, d.cfg)
	if err == nil && !sent.Taken() {
		err = fmt.Errorf("OPERATOR_WEBHOOK_URL answers %d to a test event", sent.Status)
	}
	d.Tried(err, "operator events", "correct OPERATOR_WEBHOOK_URL, or repair its receiver; `api notify test` tries again",
		"", "OPERATOR_WEBHOOK_URL answers %d to a test event", sent.Status)
}

// public warns if keys, tokens and links into the portal may travel unencrypted.
func (d *examination) public() {
	const name, todo = "public address", "put TLS before the api, and set PUBLIC_URL to its https address"
	host, _, _ := net.SplitHostPort(d.cfg.HTTPAddr) // its form was checked
	public, err := url.Parse(d.cfg.PublicURL)
	switch {
	case d.cfg.PublicURL == "" && local(host):
		d.Well(name, "the api listens on this machine alone")
	case d.cfg.PublicURL == "":
		d.Say(doctor.Warning, name, todo,
			"PUBLIC_URL is not set: links into the portal use http, and the address of the call or of the listener")
	case err != nil || public.Scheme != "https" && !local(public.Hostname()):
		d.Say(doctor.Warning, name, todo,
			"PUBLIC_URL is http: others can read keys, tokens and links into the portal on the way")
	default:
		d.Well(name, "%s", d.cfg.PublicURL)
	}
}

func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
