package materials_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/materials/operator"
	"github.com/supplyhub/supplyhub/internal/materials/work"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// noon is when the tests of the pipeline begin.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// pipeline is a service over a real database, with the outside world under the test's control.
type pipeline struct {
	requests
	*materials.RequestLedger
	worker
	t      *testing.T
	db     *database.DB
	http   http.Handler
	secret webhook.Secret
	now    atomic.Int64 // Unix microseconds
	world  *world
	logs   *lines

	operator *operator.Service
}

// newPipeline builds the service; change, when not nil, alters what it is built from.
func newPipeline(t *testing.T, db *database.DB, change func(*materials.Deps)) *pipeline {
	t.Helper()
	p := &pipeline{t: t, db: db, secret: webhook.NewSecret(), world: &world{db: db}, logs: &lines{}}
	p.now.Store(noon.UnixMicro())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the service logged: %v", p.logs)
		}
	})
	flushers := 2
	if db.Engine() == database.SQLite {
		flushers = 1
	}
	p.RequestLedger = materials.NewRequestLedger(db, slog.New(p.logs), p.clock, nil)
	p.worker.Service = work.New(work.Deps{
		DB: db, Log: slog.New(p.logs), Now: p.clock, Local: p.clock, Ledger: p.RequestLedger,
		Publish: p.world.publish, Outbox: p.world, Catalogue: p.world, Estimator: p.world, Flushers: flushers,
		Schedule: []time.Duration{time.Minute, time.Hour},
	})
	cursors, err := cursor.New("a key")
	if err != nil {
		t.Fatal(err)
	}
	deps := materials.Deps{
		Cursors: cursors, DB: db, Log: slog.New(p.logs), Now: p.clock, Publisher: p.worker, Outbox: p.world,
		Secrets: []webhook.Secret{webhook.NewSecret(), p.secret}, Flushers: flushers,
	}
	if change != nil {
		change(&deps)
	}
	p.requests.Service = materials.New(deps)
	p.operator = operator.New(operator.Deps{DB: db, Now: p.clock, Requests: p.requests.Service, Events: p.world})
	t.Cleanup(p.Close)
	p.http = routes(t, materials.Handlers{Service: p.requests.Service, Bearer: p.world})
	return p
}

// Close ends both halves.
func (p *pipeline) Close() {
	p.requests.Close()
	p.worker.Close()
}

// requests and worker are the two halves of the pipeline; the queue between them is the test's.
type (
	requests struct{ *materials.Service }
	worker   struct{ *work.Service }
)

// Work returns when all is done, however busy the machine is.
func (w worker) Work(rounds []round.Round) error {
	defer w.Wait()
	return w.Service.Work(rounds)
}

// nowhere publishes to no queue.
type nowhere struct{}

func (nowhere) Publish(...round.Round) {}

func (p *pipeline) clock() time.Time { return time.UnixMicro(p.now.Load()) }

// routes serves the handlers; the header X-Supplier replaces the token that the real middleware checks.
func routes(t testing.TB, s materials.Handlers) http.Handler {
	gin.SetMode(gin.TestMode)
	r := gin.New()
	r.Use(func(c *gin.Context) {
		c.Next()
		if c.Writer.Status() == http.StatusInternalServerError {
			t.Errorf("%s %s: %s", c.Request.Method, c.Request.URL, c.Errors)
		}
	})
	supplier := func(c *gin.Context) {
		ctx := caller.With(c.Request.Context(), caller.Principal{SupplierID: c.GetHeader("X-Supplier")})
		ctx = logctx.WithRequestID(ctx, c.GetHeader("X-Request-Id"))
		c.Request = c.Request.WithContext(ctx)
	}
	r.POST("/api/material-requests", supplier, httpapi.Handle(s.Create))
	r.GET("/api/material-requests", supplier, httpapi.Handle(s.List))
	r.GET("/api/material-requests/:id", supplier, httpapi.Handle(s.Get))
	r.POST("/api/material-requests/:id/delivery-estimates",
		httpapi.HandleWith(s.ReceiveEstimates, supplierauth.RenderBearerError))
	r.POST("/api/material-requests/:id/re-estimate", supplier, httpapi.Handle(s.Reestimate))
	r.PATCH("/api/material-requests/:id/selected-estimate", supplier, httpapi.Handle(s.Select))
	r.GET("/orders", supplier, httpapi.Handle(s.Orders))
	return r
}

// enqueue stores a request as intake leaves it.
func (p *pipeline) enqueue(supplierID string, id int64) {
	p.t.Helper()
	uid, err := p.db.Numbers(context.Background(), 1)
	if err != nil {
		p.t.Fatal(err)
	}
	p.exec(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, shard,
		due_at, created_at, updated_at)
		VALUES (?, ?, 'enqueued', ?, 'shop-1', ?, ?, ?, ?, ?, ?, ?)`,
		supplierID, id, []byte{1}, fmt.Sprintf(`{"id":%d,"shop_code":"shop-1","materials":[
			{"material_id":7,"material":"board","sku":"SKU-1","width":100,"height":50,"depth":2.5,"quantity":3},
			{"material_id":8,"material":"frame","sku":"SKU-2","width":10,"height":20,"quantity":1}]}`, id),
		trace(supplierID, id), uid, round.ShardOf(supplierID), noon.UnixMicro(), noon.UnixMicro(), noon.UnixMicro())
}

func trace(supplierID string, id int64) string { return fmt.Sprintf("trace-%s-%d", supplierID, id) }

func (p *pipeline) exec(statement string, args ...any) {
	p.t.Helper()
	databasetest.Exec(p.t, p.db, statement, args...)
}

// row is what the tests look at of a stored request.
type row struct {
	Status             string
	Failure            string
	SelectedEstimateID *string
	UID                int64
	Round              int64
	DueAt              *int64
	UpdatedAt          int64
	Estimates          *string
	Unavailable        *string
}

func (p *pipeline) row(supplierID string, id int64) row {
	p.t.Helper()
	var r row
	err := p.db.Reader(context.Background()).Raw(`SELECT * FROM material_requests WHERE supplier_id = ? AND id = ?`,
		supplierID, id).Take(&r).Error
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// estimateIDs are the ids of the request's stored estimates.
func (r row) estimateIDs() []string {
	if r.Estimates == nil {
		return nil
	}
	var list []webhook.Estimate
	if err := json.Unmarshal([]byte(*r.Estimates), &list); err != nil {
		return []string{err.Error()}
	}
	ids := make([]string, len(list))
	for i, e := range list {
		ids[i] = e.EstimateID
	}
	return ids
}

func (p *pipeline) expectStatus(supplierID string, id int64, want materials.Status) {
	p.t.Helper()
	if got := p.row(supplierID, id).Status; got != string(want) {
		p.t.Errorf("request %s/%d is %s, want %s", supplierID, id, got, want)
	}
}

// events are the stored events, as supplier/request/round, in order.
func (p *pipeline) events() []string {
	p.t.Helper()
	var keys []string
	err := p.db.Reader(context.Background()).Raw(`SELECT r.supplier_id || '/' || r.id || '/' || e.round
		FROM webhook_events e JOIN material_requests r ON r.uid = e.uid`).Scan(&keys).Error
	if err != nil {
		p.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// round is the round that the request is in; one of an unknown request has no uid.
func (p *pipeline) round(supplierID string, id int64) round.Round {
	p.t.Helper()
	r := round.Round{SupplierID: supplierID, RequestID: id}
	var rows []row
	if err := p.db.Reader(context.Background()).Raw(`SELECT uid, round FROM material_requests
		WHERE supplier_id = ? AND id = ?`, supplierID, id).Scan(&rows).Error; err != nil {
		p.t.Fatal(err)
	}
	if len(rows) > 0 {
		r.UID, r.Number = rows[0].UID, rows[0].Round
	}
	return r
}

// due counts the estimations that are due by now.
func (p *pipeline) due() (n int) {
	p.t.Helper()
	err := p.db.Reader(context.Background()).Raw(`SELECT count(*) FROM material_requests WHERE due_at <= ?`,
		p.now.Load()).Scan(&n).Error
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *pipeline) work(supplierID string, id int64) error {
	return p.Work([]round.Round{p.round(supplierID, id)})
}

// allShards are those of a lone worker.
func allShards() []int {
	all := make([]int, round.Shards)
	for shard := range all {
		all[shard] = shard
	}
	return all
}

// run runs the worker until the test ends or stop is called.
func (p *pipeline) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
	})
	p.t.Cleanup(stop)
	return stop
}

// deliverOwn posts a signed event as the sender does, under the webhook-id of its round.
func (p *pipeline) deliverOwn(r round.Round, e webhook.Event) *httptest.ResponseRecorder {
	return p.deliver(ownID(r), e)
}

// breaks is how often a change may have waited too long for another one, on the busiest of machines.
const breaks = 30

// call sends a request to the handlers. As every client does, it sends again what was broken off.
func (p *pipeline) call(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	var w *httptest.ResponseRecorder
	for range breaks {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		w = httptest.NewRecorder()
		if p.http.ServeHTTP(w, r); w.Code != 503 || !strings.Contains(w.Body.String(), "had to break this off") {
			break
		}
	}
	return w
}

// estimatesPath is where the request's events are received.
func estimatesPath(id int64) string {
	return fmt.Sprintf("/api/material-requests/%d/delivery-estimates", id)
}

// deliver posts a signed event, as the sender does.
func (p *pipeline) deliver(webhookID string, e webhook.Event) *httptest.ResponseRecorder {
	return p.deliverBody(webhookID, e.Data.RequestID, marshal(e))
}

func (p *pipeline) deliverBody(webhookID string, id int64, body string, headers ...string) *httptest.ResponseRecorder {
	at := p.clock()
	return p.call(http.MethodPost, estimatesPath(id), body, append(headers, "Content-Type", "application/json",
		webhook.HeaderID, webhookID, webhook.HeaderTimestamp, fmt.Sprint(at.Unix()),
		webhook.HeaderSignature, webhook.Sign(webhookID, at, []byte(body), p.secret))...)
}

func (p *pipeline) choose(supplierID string, id int64, estimateID string) *httptest.ResponseRecorder {
	return p.call(http.MethodPatch, fmt.Sprintf("/api/material-requests/%d/selected-estimate", id),
		marshal(map[string]string{"estimate_id": estimateID}), "X-Supplier", supplierID)
}

// event has one estimate for each id, computed at the given time and valid for a week.
func event(supplierID string, id int64, at time.Time, estimateIDs ...string) webhook.Event {
	e := webhook.Event{Type: webhook.TypeEstimated, Timestamp: at, Data: webhook.Data{
		SupplierID: supplierID, RequestID: id, ShopCode: "shop-1", Estimates: []webhook.Estimate{},
		Unavailable: []webhook.Unavailable{{Service: "express", Reason: "too heavy"}},
	}}
	for _, estimateID := range estimateIDs {
		e.Data.Estimates = append(e.Data.Estimates, webhook.Estimate{
			EstimateID: estimateID, Service: "road", Carrier: "Rodovia Cargas", PriceCents: 12345, Currency: "BRL",
			LeadTimeDays: 5, DispatchDate: "2026-11-23", DeliveryDate: "2026-11-27",
			ChargeableWeightKg: 12.5, VolumeM3: 0.075, ValidUntil: at.Add(7 * 24 * time.Hour),
		})
	}
	return e
}

func marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// expect compares an answer's status, and its body when one is given.
func expect(t *testing.T, got *httptest.ResponseRecorder, status int, body ...string) {
	t.Helper()
	if got.Code != status {
		t.Errorf("status %d, want %d: %s", got.Code, status, got.Body)
	}
	if len(body) > 0 && strings.TrimSpace(got.Body.String()) != body[0] {
		t.Errorf("body %s, want %s", got.Body, body[0])
	}
}

// pointers are the JSON pointers of a problem's violations, sorted.
func pointers(t *testing.T, w *httptest.ResponseRecorder) []string {
	t.Helper()
	var problem struct{ Errors []errs.Violation }
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	var found []string
	for _, v := range problem.Errors {
		if v.Pointer != nil {
			found = append(found, *v.Pointer)
		}
	}
	slices.Sort(found)
	return found
}

// world is everything outside the package: an outbox that stores into the real table, a catalogue, an estimator and
// tokens. Its functions may be set before the work begins.
type world struct {
	db        *database.DB
	estimate  func(ctx context.Context, r estimates.Request) (estimates.Result, error)
	products  func(keys []estimates.ProductKey) error // fails
	outbox    func(events []round.Outgoing) error
	adds      atomic.Int64
	mu        sync.Mutex
	sent      []string
	published []round.Message
	last      round.Outgoing
	asked     estimates.Request
}

func (w *world) publish(m round.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.published = append(w.published, m)
}

// takeMessages are the messages published since the last call.
func (w *world) takeMessages() []round.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	published := w.published
	w.published = nil
	return published
}

// takePublished are the rounds whose work was published since the last call, as supplier/request/round, sorted.
func (w *world) takePublished() []string {
	var rounds []string
	for _, m := range w.takeMessages() {
		for _, r := range m.Rounds {
			rounds = append(rounds, key(r))
		}
	}
	slices.Sort(rounds)
	return rounds
}

func key(r round.Round) string { return fmt.Sprintf("%s/%d/%d", r.SupplierID, r.RequestID, r.Number) }

func (w *world) Products(_ context.Context, keys []estimates.ProductKey) (
	map[estimates.ProductKey]estimates.Product, error) {
	found := map[estimates.ProductKey]estimates.Product{}
	for _, key := range keys {
		if key.SKU == "SKU-1" {
			found[key] = estimates.Product{Active: true, WeightKg: 4, ProductionDays: 2}
		}
	}
	if w.products != nil {
		return found, w.products(keys)
	}
	return found, nil
}

func (w *world) Estimate(ctx context.Context, r estimates.Request) (estimates.Result, error) {
	if w.estimate != nil {
		return w.estimate(ctx, r)
	}
	w.mu.Lock()
	w.asked = r
	w.mu.Unlock()
	return estimates.Result{Estimates: event(r.SupplierID, r.RequestID, r.At, "e1").Data.Estimates}, nil
}

func (w *world) Add(ctx context.Context, events []round.Outgoing) (before []round.Round, err error) {
	w.adds.Add(1)
	if w.outbox != nil {
		if err := w.outbox(events); err != nil {
			return nil, err
		}
	}
	var fresh []round.Outgoing
	for _, e := range events {
		result := w.db.From(ctx).Exec(`INSERT INTO webhook_events (uid, round, supplier_id, trace_id, body, created_at)
			VALUES (?, ?, ?, ?, ?, 0) ON CONFLICT DO NOTHING`, e.Round.UID, e.Round.Number, e.Round.SupplierID, e.TraceID,
			[]byte(marshal(e.Event)))
		if result.Error != nil {
			return nil, result.Error
		}
		if result.RowsAffected == 1 {
			fresh = append(fresh, e)
		} else {
			before = append(before, e.Round)
		}
	}
	w.db.AfterTx(ctx, func(end database.End) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range fresh {
			if end == database.Committed {
				w.sent, w.last = append(w.sent, key(e.Round)), e
			}
		}
	})
	return before, nil
}

func (w *world) Stored(ctx context.Context, rounds []round.Round) (stored []round.Round, err error) {
	var known []round.Round // one statement: a look has 10 s, and asks about two thousand rounds
	uids := lists.Of(rounds, func(r round.Round) int64 { return r.UID })
	err = w.db.Reader(ctx).Raw(`SELECT uid, round AS number FROM webhook_events WHERE uid IN ?`, uids).Scan(&known).Error
	for _, r := range rounds {
		if slices.Contains(known, round.Round{UID: r.UID, Number: r.Number}) {
			stored = append(stored, r)
		}
	}
	return stored, err
}

func (w *world) Reserve(want int) (int, func()) { return want, func() {} }

func (w *world) End(context.Context, time.Time, string) error { return nil }

func (w *world) Hold(_ context.Context, all []round.Round, _ int64) ([]round.Round, error) {
	return all, nil
}

func (w *world) Forget(ctx context.Context, latest []round.Round, upTo int64) (events int64, err error) {
	uids := lists.Of(latest, func(r round.Round) int64 { return r.UID })
	deleted := w.db.From(ctx).Exec(`DELETE FROM webhook_events WHERE uid IN ? AND round <= ?`, uids, upTo)
	return deleted.RowsAffected, deleted.Error
}

func (w *world) BodyOf(_, uid, number string) string {
	return `(SELECT e.body FROM webhook_events e WHERE e.uid = ` + uid + ` AND e.round = ` + number + `)`
}

func (w *world) BodyOfOne(of, uid, number string) string { return w.BodyOf(of, uid, number) }

// ownID and theirID are the webhook-ids of a round's two deliveries, as far as the world knows them.
func ownID(r round.Round) string   { return fmt.Sprintf("msg_own_%d_%d", r.UID, r.Number) }
func theirID(r round.Round) string { return fmt.Sprintf("msg_theirs_%d_%d", r.UID, r.Number) }

func (w *world) RoundOf(_ context.Context, id string) (uid, number int64, own bool, err error) {
	for prefix, isOwn := range map[string]bool{"msg_own_%d_%d": true, "msg_theirs_%d_%d": false} {
		if n, _ := fmt.Sscanf(id, prefix, &uid, &number); n == 2 {
			return uid, number, isOwn, nil
		}
	}
	return 0, 0, false, nil
}

// sentKeys are the events that were sent at once, sorted.
func (w *world) sentKeys() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(slices.Values(w.sent))
}

// Identify knows tokens of the form supplier/scope,scope.
func (w *world) Identify(c *gin.Context, scope string) (caller.Principal, error) {
	token, found := strings.CutPrefix(c.Request.Header.Get("Authorization"), "Bearer ")
	supplierID, scopes, known := strings.Cut(token, "/")
	if !found || !known {
		return caller.Principal{}, errs.New(errs.Unauthenticated, "unknown token")
	}
	p := caller.Principal{SupplierID: supplierID, Scopes: strings.Split(scopes, ",")}
	if !p.Has(scope) {
		return p, errs.New(errs.Forbidden, "no such scope")
	}
	httpapi.Known(c, supplierID)
	return p, nil
}

// lines keeps every log line with the attributes of its context, as the service's own handler writes it.
type lines struct {
	mu  sync.Mutex
	all []map[string]string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(ctx context.Context, r slog.Record) error {
	line := map[string]string{"msg": r.Message}
	for _, a := range logctx.Attrs(ctx) {
		line[a.Key] = a.Value.String()
	}
	r.Attrs(func(a slog.Attr) bool { line[a.Key] = a.Value.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
	return nil
}

// only is the one line written so far.
func (l *lines) only(t *testing.T) map[string]string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) != 1 {
		t.Fatalf("%d log lines, want 1: %v", len(l.all), l.all)
	}
	return maps.Clone(l.all[0])
}

// atOnce runs n calls that start together and waits for all.
func atOnce(n int, call func(i int)) {
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() {
			start.Wait()
			call(i)
		})
	}
	start.Done()
	done.Wait()
}

// bigBody is a JSON text over the limit of a body.
func bigBody() string { return `{"x":"` + string(bytes.Repeat([]byte{'a'}, 1<<20)) + `"}` }
