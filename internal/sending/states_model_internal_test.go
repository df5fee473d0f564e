package sending

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// The states of a delivery as package deliveries draws them: where each arrow may begin and end. "none" is before the
// delivery is stored.
var arrows = map[string][]string{
	"a": {"none→waiting"},
	"b": {"none→begun"},
	"c": {"waiting→begun", "waiting→dead"},
	"d": {"begun→waiting"},
	"e": {"begun→delivered", "begun→failed", "begun→dead", "begun→waiting"},
	"f": {"begun→waiting"},
	"g": {"waiting→dead"},
	"h": {"delivered→waiting", "failed→waiting", "dead→waiting"},
}

// actions are what the model does, by name. A name that begins with a letter walks the arrow of that letter; the others
// change what is around deliveries.
func (m *stateModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"a stored as due": m.storeDue, "b stored and begun": m.storeBegun, "c claimed": m.claimed,
		"b more stored and begun": m.storeBegun,
		"d given back":            m.givenBack, "d another given back": m.givenBack,
		"e result written": m.resultWritten, "e more results written": m.resultWritten,
		"e the next result written": m.resultWritten,
		"e result written late":     m.lateResultWritten, "c more claimed": m.claimed, "c the next claimed": m.claimed,
		"more time passes":           m.timePasses,
		"f reconciled by its holder": m.reconciled, "f taken over by another worker": m.takenOver,
		"g ended by retention": m.endedByRetention, "h redelivered": m.redelivered,
		"time passes": m.timePasses, "a worker renews its lease": m.leaseRenewed, "a worker is killed": m.killed,
		"a shard moves": m.shardMoved, "the receiver is paused or resumed": m.pausedOrResumed,
	}
}

// The one supplier: each event has a delivery to its receiver and one to the own endpoint.
const modelSupplier = "acme"

// mostKept is how many deliveries a run stores: few, so that each goes far.
const mostKept = 8

// The schedule: so many attempts, and the wait between them.
const (
	modelAttempts = 2
	modelWait     = time.Minute
)

var errBeforeCommit = errors.New("the process ended before the COMMIT")

// keptDelivery is what the model knows of a delivery.
type keptDelivery struct {
	uid             int64
	id, destination string
	state           string // of the arrows
	worker          int64
	underWay        int // the attempt, by the model's own count of all attempts; 0: none
	begun, back     int // attempts that were begun, and of these given back
	series          int
	next            int64
	created         int64
	waits           int64 // since when its last series waited for a first attempt
	record          []recordedAttempt
}

// recordedAttempt is an attempt as the database has it on record.
type recordedAttempt struct {
	started, took, status int64 // -1: none
	err                   string
}

// modelJob is an attempt in a worker's hands.
type modelJob struct {
	job
	attempt int // by the model's own count
	to      *keptDelivery
	result  *deliveries.Result // once the call was made
	answer  recordedAttempt    // as the result is to be on record
	ended   string             // the state that follows
	back    bool               // it is being given back
}

// sentNumber is the number of an attempt that was sent.
type sentNumber struct {
	id     string
	number int64
}

// modelWorker is a worker without its loops: the model calls what they call.
type modelWorker struct {
	*Dispatcher
	id   int64
	jobs []*modelJob
	late []*modelJob // whose results it believes to have written
}

type stateModel struct {
	t       *testing.T
	db      *database.DB
	now     time.Time
	sent    chan job // what Add sends after its COMMIT
	open    *dispatch.Scheduler[job]
	full    *dispatch.Scheduler[job] // has no room
	workers []*modelWorker
	leases  map[int64]int64 // until when, of the workers that have a row
	ids     []int64         // of all workers that there were
	shards  int64           // who owns the supplier's shard
	paused  bool
	// all that waited for the receiver when it was resumed, up to this uid, and how far that is claimed; 0: nothing
	catchUpTo, caughtUp int64
	chosen              int // deliveries of the last claim that were caught up with
	uid                 int64
	n                   int // attempts
	numbers             map[sentNumber]bool
	kept                []*keptDelivery
	states              map[string]string // by delivery, as last read
	letter              string            // of the last action
	moved               bool              // an action may have changed what is stored of deliveries
	walked              map[string]int    // arrows, over all runs
}

// Deliveries go the ways of the diagram and no other, whichever worker does what when, and wherever a process ends.
func TestDeliveries_go_the_ways_that_the_diagram_draws(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		m := newStateModel(t, db)
		databasetest.WalkUntil(t, func() bool { return len(m.unwalked()) == 0 }, func(rt *rapid.T) {
			m.reset(rt)
			actions := m.actions()
			for name, act := range actions {
				actions[name] = func(rt *rapid.T) {
					m.letter, _, _ = strings.Cut(name, " ")
					m.moved = m.moved || arrows[m.letter] != nil
					m.now = m.now.Add(time.Microsecond)
					act(rt)
				}
			}
			actions[""] = m.check
			m.storeBegun(rt)
			m.walks(rt, "b")
			for range 3 {
				rt.Repeat(actions)
			}
			m.show(rt)
			m.settle(rt)
		})
		if ways := m.unwalked(); len(ways) > 0 {
			t.Errorf("no run went the ways %v", ways)
		}
		t.Log(m.walked)
	})
}

// unwalked returns the arrows, and their ways, that no run went yet.
func (m *stateModel) unwalked() (ways []string) {
	for letter, all := range arrows {
		for _, way := range all {
			if m.walked[letter+" "+way] == 0 {
				ways = append(ways, letter+" "+way)
			}
		}
	}
	return ways
}

// The diagram and the model have the same arrows: neither changes without the other.
func TestDiagram_of_the_states_has_the_letters_of_the_model(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../deliveries/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	drawn, explained, modelled := map[string]bool{}, map[string]bool{}, map[string]bool{}
	explanation := regexp.MustCompile(`^//\t([a-z](?:, [a-z])*)  +\S`)
	for line := range strings.Lines(string(raw)) {
		if strings.ContainsAny(line, "│─┌└▶◀▲▼") {
			for _, letter := range regexp.MustCompile(`\b[a-z]\b`).FindAllString(line, -1) {
				drawn[letter] = true
			}
		}
		if found := explanation.FindStringSubmatch(line); found != nil {
			for letter := range strings.SplitSeq(found[1], ", ") {
				explained[letter] = true
			}
		}
	}
	for name := range (&stateModel{}).actions() {
		if letter, _, _ := strings.Cut(name, " "); arrows[letter] != nil {
			modelled[letter] = true
		}
	}
	want := slices.Sorted(maps.Keys(arrows))
	for what, letters := range map[string]map[string]bool{"the drawing": drawn, "the explanation": explained,
		"the model": modelled} {
		if got := slices.Sorted(maps.Keys(letters)); !slices.Equal(got, want) {
			t.Errorf("%s has the arrows %v, want %v", what, got, want)
		}
	}
}

func newStateModel(t *testing.T, db *database.DB) *stateModel {
	t.Helper()
	m := &stateModel{t: t, db: db, now: time.Now().Truncate(time.Microsecond).UTC(), sent: make(chan job, 64),
		walked: map[string]int{}}
	config := dispatch.Config[job]{Slots: 64, Now: time.Now, Wake: func() {}, GiveBack: func([]job) {},
		Send: func(j job, ended func(dispatch.Report) dispatch.Streak) {
			m.sent <- j
			ended(dispatch.Report{Void: true})
		}}
	if db.Engine() == database.SQLite { // processes end here, machines do not
		if _, err := database.Exec(t.Context(), db.SQL(t.Context()), `PRAGMA synchronous = OFF`); err != nil {
			t.Fatal(err)
		}
	}
	m.open, m.full = dispatch.New(config), dispatch.New(config)
	m.open.Start()
	to := receivers.Receiver{URL: "http://receiver.test", Secrets: []webhook.Secret{webhook.NewSecret()}, Active: true,
		Concurrency: 64}
	for range 3 {
		d := New(Deps{DB: db, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return m.now },
			Schedule: []time.Duration{modelWait}, Destinations: oneReceiver(to)})
		t.Cleanup(d.Close)
		m.workers = append(m.workers, &modelWorker{Dispatcher: d})
	}
	t.Cleanup(func() { <-m.open.Stop() })
	return m
}

// oneReceiver is the receiver of each supplier.
type oneReceiver receivers.Receiver

func (r oneReceiver) Receivers(_ context.Context, ids []string) (map[string]receivers.Receiver, error) {
	found := map[string]receivers.Receiver{}
	for _, id := range ids {
		found[id] = receivers.Receiver(r)
	}
	return found, nil
}

// reset begins a run: nothing is stored, three workers have leases and the first owns the supplier.
func (m *stateModel) reset(t *rapid.T) {
	for _, table := range []string{"webhook_deliveries", "webhook_attempts", "webhook_events", "webhook_receivers",
		"workers"} {
		if _, err := database.Exec(m.t.Context(), m.db.SQL(m.t.Context()), `DELETE FROM `+table); err != nil {
			t.Fatal(err)
		}
	}
	m.leases, m.ids, m.kept, m.states, m.paused = map[int64]int64{}, nil, nil, map[string]string{}, false
	m.catchUpTo, m.caughtUp = 0, 0
	m.numbers = map[sentNumber]bool{}
	for _, w := range m.workers {
		m.register(t, w)
		w.jobs, w.late, w.held = nil, nil, map[string]int{}
		w.ownership.owned = nil
	}
	first := m.workers[0]
	if _, err := database.Exec(m.t.Context(), m.db.SQL(m.t.Context()), `UPDATE webhook_shards SET worker = $1
		WHERE shard = $2`,
		first.id, round.ShardOf(modelSupplier)); err != nil {
		t.Fatal(err)
	}
	m.shards, first.ownership.owned = first.id, []int{round.ShardOf(modelSupplier)}
}

// storedDelivery is a delivery's row. -1 is null.
type storedDelivery struct {
	id, status                     string
	worker, attempts, series, next int64
	started, took, answer          int64
	err                            string
}

func (s *storedDelivery) places() []any {
	return []any{&s.id, &s.status, &s.worker, &s.attempts, &s.series, &s.next, &s.started, &s.took, &s.answer, &s.err}
}

func (s storedDelivery) state() string {
	switch {
	case s.status != string(deliveries.Pending):
		return s.status
	case s.worker != 0:
		return "begun"
	default:
		return "waiting"
	}
}

func (m *stateModel) rows(t *rapid.T) []storedDelivery {
	rows, err := database.Query(m.t.Context(), m.db.SQL(m.t.Context()), `SELECT id, status, coalesce(worker, 0), attempts,
			series, next_attempt_at, coalesce(last_started_at, -1), coalesce(last_duration_us, -1), coalesce(last_status, -1),
			last_error
		FROM webhook_deliveries`, nil, (*storedDelivery).places)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// check compares what is stored with the model, and asks what holds always.
func (m *stateModel) check(t *rapid.T) {
	if !m.moved {
		return
	}
	m.moved = false
	rows, records, want := m.rows(t), m.records(t), map[string]*keptDelivery{}
	for _, d := range m.kept {
		want[d.id] = d
	}
	if len(rows) != len(want) {
		t.Fatalf("%d deliveries are stored, want %d", len(rows), len(want))
	}
	for _, row := range rows {
		d := want[row.id]
		if d == nil {
			t.Fatalf("%+v was never stored", row)
		}
		m.went(t, row.id, row.state())
		m.checkRow(t, row, d, records[row.id])
	}
	m.checkDue(t)
}

// went notes where a delivery is now: only an arrow of the last action's letter may have moved it.
func (m *stateModel) went(t *rapid.T, id, state string) {
	before := cmp.Or(m.states[id], "none")
	if m.states[id] = state; before == state {
		return
	}
	letter, way := m.letter, before+"→"+state
	if letter == "b" && state == "waiting" {
		letter = "a" // of an event's two deliveries one may be begun and the other not
	}
	if !slices.Contains(arrows[letter], way) {
		t.Fatalf("arrow %q moved a delivery %s", letter, way)
	}
	m.walked[letter+" "+way]++
}

func (m *stateModel) checkRow(t *rapid.T, row storedDelivery, d *keptDelivery, earlier []recordedAttempt) {
	if row.state() != d.state || row.worker != d.worker || row.series != int64(d.series) || row.next != d.next {
		t.Fatalf("stored is %+v, want %+v", row, *d)
	}
	if row.attempts != int64(d.begun-d.back) || row.attempts != int64(len(d.record)) {
		t.Fatalf("%d attempts count, of %d begun and %d given back", row.attempts, d.begun, d.back)
	}
	if row.attempts > 0 {
		earlier = append(earlier, recordedAttempt{row.started, row.took, row.answer, row.err})
	}
	if !slices.Equal(earlier, d.record) {
		t.Fatalf("on record are %+v, want %+v", earlier, d.record)
	}
	holders := 0
	for _, w := range m.workers {
		for _, j := range w.jobs {
			if j.ID == row.id && !j.back && j.Worker == row.worker && j.Number == row.attempts {
				holders++
			}
		}
	}
	if holders > 1 {
		t.Fatalf("%d hold the attempt of %+v", holders, row)
	}
}

// records are the attempts before the last ones.
func (m *stateModel) records(t *rapid.T) map[string][]recordedAttempt {
	type row struct {
		id     string
		number int
		recordedAttempt
	}
	rows, err := database.Query(m.t.Context(), m.db.SQL(m.t.Context()), `SELECT delivery_id, number, started_at,
			coalesce(duration_us, -1), coalesce(status, -1), error
		FROM webhook_attempts ORDER BY delivery_id, number`, nil,
		func(r *row) []any { return []any{&r.id, &r.number, &r.started, &r.took, &r.status, &r.err} })
	if err != nil {
		t.Fatal(err)
	}
	records := map[string][]recordedAttempt{}
	for _, r := range rows {
		if records[r.id] = append(records[r.id], r.recordedAttempt); r.number != len(records[r.id]) {
			t.Fatalf("attempt %d of %s is number %d on record", r.number, r.id, len(records[r.id]))
		}
	}
	return records
}

// checkDue asks whether the receiver's row says early enough that something waits for it: otherwise no worker looks.
func (m *stateModel) checkDue(t *rapid.T) {
	earliest := int64(0)
	for _, d := range m.kept {
		if d.destination == modelSupplier && d.state == "waiting" && (earliest == 0 || d.next < earliest) {
			earliest = d.next
		}
	}
	due, err := database.Column[int64](m.t.Context(), m.db.SQL(m.t.Context()),
		`SELECT due_at FROM webhook_receivers WHERE due_at IS NOT NULL`)
	if err != nil || earliest != 0 && (len(due) == 0 || due[0] > earliest) {
		t.Fatalf("the receiver is due at %v, want %d at the latest: %v", due, earliest, err)
	}
}

// show asks whether each delivery is shown with its attempts, interrupted ones among them.
func (m *stateModel) show(t *rapid.T) {
	for _, d := range m.kept {
		detail, err := m.workers[0].Show(m.t.Context(), d.id)
		if err != nil || int(detail.AttemptCount) != d.begun-d.back || len(detail.Attempts) != d.begun-d.back {
			t.Fatalf("shown is %+v, want %+v: %v", detail, *d, err)
		}
		for i, a := range detail.Attempts {
			ended, underWay := d.record[i].took >= 0, d.state == "begun" && i == len(d.record)-1
			interrupted := a.Error != nil && strings.HasPrefix(*a.Error, "interrupted:")
			if interrupted != (!ended && !underWay) {
				t.Fatalf("attempt %d is shown as %+v, of %+v", a.Number, a, *d)
			}
		}
	}
}

// settle kills all workers again and again, and each time has one serve everything, until nothing is pending: no stored
// delivery is forgotten. One delivery to each destination gets an answer that ends it. The others are lost: to the
// receiver there is no answer, and calls to the own endpoint are interrupted.
func (m *stateModel) settle(t *rapid.T) {
	if m.paused {
		m.pausedOrResumed(t)
	}
	w, ended := m.workers[0], map[string]bool{}
	for range modelAttempts + 1 {
		m.now = m.now.Add(2 * modelWait)
		for _, killed := range m.workers {
			m.kill(t, killed)
		}
		for _, id := range m.ids {
			if id != w.id {
				m.takeOver(t, w, database.Committed, id, anyRenewal)
			}
		}
		m.walks(t, "f")
		m.moveShard(t, w)
		for _, to := range []string{deliveries.OwnEndpoint, modelSupplier} {
			m.claim(t, w, database.Committed, to, mostKept)
		}
		m.walks(t, "c")
		for _, j := range slices.Clone(w.jobs) {
			answer := noAnswer
			if !ended[j.Destination] {
				answer = map[string]possibleAnswer{deliveries.OwnEndpoint: notFound, modelSupplier: ok}[j.Destination]
			} else if j.Destination == deliveries.OwnEndpoint {
				continue
			}
			ended[j.Destination] = true
			m.call(t, w, j, answer)
			m.write(t, w, j)
			m.written(w, j)
		}
		m.walks(t, "e")
	}
	for _, d := range m.kept {
		if d.state == "waiting" || d.state == "begun" {
			t.Fatalf("%+v is forgotten", *d)
		}
	}
	m.redeliver(t, w, database.Committed, m.kept)
	m.walks(t, "h")
}

// walks checks after steps of one arrow.
func (m *stateModel) walks(t *rapid.T, letter string) {
	m.letter, m.moved = letter, true
	m.check(t)
}
