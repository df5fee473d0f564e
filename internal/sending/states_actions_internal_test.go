package sending

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
)

// These are the actions of the model: each calls what the product calls at an arrow, and says to the model what that
// means. A process may end before the COMMIT, or after it without having seen it.

func (m *stateModel) worker(t *rapid.T) *modelWorker { return one(t, "worker", m.workers) }

// one draws one of a list, by its number.
func one[T any](t *rapid.T, what string, list []T) T {
	if len(list) == 0 {
		t.Skip("there is no such ", what)
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(t, what)]
}

// end draws how the transaction of an arrow ends. Unknown is one that is committed, which its worker does not learn.
func (m *stateModel) end(t *rapid.T) database.End {
	return rapid.SampledFrom([]database.End{database.Committed, database.Committed, database.RolledBack,
		database.Unknown}).
		Draw(t, "end")
}

// tx runs fn in a transaction that ends as drawn, and reports whether it is stored.
func (m *stateModel) tx(t *rapid.T, end database.End, fn func(ctx context.Context) error) bool {
	err := m.db.InTx(m.t.Context(), "walk", func(ctx context.Context) error {
		if err := fn(ctx); err != nil {
			return err
		}
		if end == database.RolledBack {
			return errBeforeCommit
		}
		return nil
	})
	if err != nil && !errors.Is(err, errBeforeCommit) {
		t.Fatal(err)
	}
	return err == nil
}

// register stores a lease for a worker, under a number that no other had.
func (m *stateModel) register(t *rapid.T, w *modelWorker) {
	until := m.now.Add(leaseLife)
	id, err := w.workers.newLease(m.t.Context(), until)
	if err != nil || slices.Contains(m.ids, id) {
		t.Fatalf("a worker is registered as %d: %v", id, err)
	}
	w.id, m.ids, m.leases[id] = id, append(m.ids, id), until.UnixMicro()
	w.lease.set(id, time.Now().Add(time.Hour)) // by this process's clock it is held for the whole run
}

func (m *stateModel) begin(d *keptDelivery, worker int64) {
	m.n++
	d.state, d.worker, d.underWay = "begun", worker, m.n
	d.begun++
	d.series++
	d.record = append(d.record, recordedAttempt{m.now.UnixMicro(), -1, -1, ""})
}

func (m *stateModel) wait(d *keptDelivery, next int64) {
	d.state, d.worker, d.underWay, d.next = "waiting", 0, 0, next
}

// take puts jobs of begun attempts into the worker's hands, unless it does not learn of their COMMIT.
func (m *stateModel) take(w *modelWorker, end database.End, jobs ...job) {
	for _, j := range jobs {
		if end == database.Unknown {
			w.release(j.ID)
			continue
		}
		i := slices.IndexFunc(m.kept, func(d *keptDelivery) bool { return d.id == j.ID })
		w.jobs = append(w.jobs, &modelJob{job: j, attempt: m.kept[i].underWay, to: m.kept[i]})
	}
}

func (m *stateModel) storeDue(t *rapid.T)   { m.store(t, m.full) }
func (m *stateModel) storeBegun(t *rapid.T) { m.store(t, m.open) }

func (m *stateModel) store(t *rapid.T, room *dispatch.Scheduler[job]) {
	if len(m.kept) == mostKept {
		t.Skip("enough are stored")
	}
	w, end := m.worker(t), m.end(t)
	w.scheduler = room
	m.uid++
	e := round.Outgoing{Round: round.Round{SupplierID: modelSupplier, RequestID: m.uid, UID: m.uid, Number: 1},
		TraceID: "trace", Body: []byte(`{}`)}
	stored := m.tx(t, end, func(ctx context.Context) error {
		before, err := w.Add(ctx, []round.Outgoing{e})
		if len(before) > 0 {
			t.Fatalf("%v were stored before", before)
		}
		return err
	})
	if !stored {
		return
	}
	type row struct{ id, destination string }
	rows, err := database.Query(m.t.Context(), m.db.SQL(m.t.Context()), `SELECT id, destination FROM webhook_deliveries
		WHERE uid = $1 ORDER BY destination`, []any{m.uid}, func(r *row) []any { return []any{&r.id, &r.destination} })
	if err != nil || len(rows) != 2 || rows[0].destination != modelSupplier ||
		rows[1].destination != deliveries.OwnEndpoint {
		t.Fatalf("stored are %v: %v", rows, err)
	}
	serves, begun := !m.paused && w.ownership.owns(modelSupplier), 0
	for _, r := range rows {
		d := &keptDelivery{uid: m.uid, id: r.id, destination: r.destination, created: m.now.UnixMicro(),
			waits: m.now.UnixMicro()}
		m.kept = append(m.kept, d)
		m.wait(d, m.now.UnixMicro())
		if room == m.open && (r.destination == deliveries.OwnEndpoint || serves) {
			m.begin(d, w.id)
			begun++
		}
	}
	for range begun {
		m.take(w, end, m.receive(t))
	}
}

// receive returns the next job that Add sends.
func (m *stateModel) receive(t *rapid.T) job {
	select {
	case j := <-m.sent:
		return j
	case <-time.After(30 * time.Second):
		t.Fatal("what was begun with its delivery is not sent")
		return job{}
	}
}

// claimed claims as the loop does, also by a worker that may not.
func (m *stateModel) claimed(t *rapid.T) {
	w, end := m.worker(t), m.end(t)
	to, n := one(t, "to", []string{deliveries.OwnEndpoint, modelSupplier}), rapid.IntRange(1, 3).Draw(t, "n")
	owner := slices.IndexFunc(m.workers, func(w *modelWorker) bool { return w.id == m.shards })
	if owner >= 0 && rapid.Bool().Draw(t, "by its owner") {
		w = m.workers[owner]
	}
	m.claim(t, w, end, to, n)
}

// claim adopts which of several deliveries that are equally long due the database takes.
func (m *stateModel) claim(t *rapid.T, w *modelWorker, end database.End, to string, n int) {
	var suppliers []string
	if to == modelSupplier {
		suppliers = []string{to}
	}
	var jobs []job
	looked, err := w.Dispatcher.due.Due(m.t.Context(), []int{round.ShardOf(modelSupplier)}, m.now)
	if err != nil {
		t.Fatal(err)
	}
	w.agenda.due = looked
	stored := m.tx(t, end, func(ctx context.Context) (err error) {
		jobs, err = w.claimIn(ctx, map[string]int{to: n}, suppliers, nil)
		return err
	})
	if !stored {
		for _, j := range jobs {
			w.release(j.ID)
		}
		return
	}
	var due []*keptDelivery
	if to == deliveries.OwnEndpoint || !m.paused && m.shards == w.id {
		due = m.due(to, n)
	} else {
		m.chosen = 0
	}
	n = min(n, len(due))
	taken := map[string]bool{}
	for _, row := range m.rows(t) {
		taken[row.id] = row.state() != "waiting"
	}
	claimed, dead := 0, 0
	for i, d := range due {
		if !taken[d.id] {
			continue
		}
		if claimed++; claimed > n || i >= m.chosen && n > 0 && d.next > due[n-1].next {
			t.Fatalf("%+v is claimed before what has been due for longer, or is too many", *d)
		}
		if d.series == modelAttempts {
			d.state = "dead"
			dead++
			continue
		}
		m.begin(d, w.id)
	}
	if claimed != n || len(jobs) != claimed-dead {
		t.Fatalf("%d of %d are claimed, %d of them dead, and %d are to be sent", claimed, n, dead, len(jobs))
	}
	m.take(w, end, jobs...)
	for _, j := range w.late { // of attempts before: a repetition comes when the next attempt has begun
		m.write(t, w, j)
	}
}

// givenBack undoes an attempt that was begun with its delivery and not sent. One who does not know whether that was
// committed does it again; by then the worker itself may have claimed the delivery.
func (m *stateModel) givenBack(t *rapid.T) {
	w, j := m.inHand(t, func(j *modelJob) bool { return !j.At.IsZero() && j.result == nil })
	j.back = true // it is not sent any more
	switch end := m.end(t); end {
	case database.Committed:
		w.putBack([]job{j.job})
		m.wasGivenBack(j)
	case database.RolledBack:
		m.putBack(t, w, end, j)
		return // it is tried again
	case database.Unknown:
		m.putBack(t, w, end, j)
		m.wasGivenBack(j)
		m.walks(t, "d")
		m.now = m.now.Add(time.Microsecond)
		m.claim(t, w, database.Committed, j.Destination, mostKept)
		m.walks(t, "c")
		m.putBack(t, w, end, j)
		m.letter, m.moved = "d", true
		w.release(j.ID)
	}
	m.drop(w, j)
}

func (m *stateModel) putBack(t *rapid.T, w *modelWorker, end database.End, j *modelJob) {
	m.tx(t, end, func(ctx context.Context) error {
		return w.Dispatcher.attempts.PutBack(ctx, []deliveries.Begun{j.Begun}, m.now)
	})
}

func (m *stateModel) wasGivenBack(j *modelJob) {
	if d := j.to; d.underWay == j.attempt {
		m.wait(d, m.now.UnixMicro())
		d.back, d.series, d.record, d.waits = d.back+1, 0, nil, m.now.UnixMicro()
	}
}

// inHand draws a worker and one of the attempts in its hands.
func (m *stateModel) inHand(t *rapid.T, which func(*modelJob) bool) (*modelWorker, *modelJob) {
	type hand struct {
		*modelWorker
		*modelJob
	}
	var all []hand
	for _, w := range m.workers {
		for _, j := range w.jobs {
			if which(j) {
				all = append(all, hand{w, j})
			}
		}
	}
	h := one(t, "attempt", all)
	return h.modelWorker, h.modelJob
}

// drop takes an attempt out of the worker's hands; putBack and written release it in the product.
func (m *stateModel) drop(w *modelWorker, j *modelJob) {
	w.jobs = slices.DeleteFunc(w.jobs, func(other *modelJob) bool { return other == j })
}

// possibleAnswer is what a destination may answer, and what it means for a delivery whose schedule is not used up.
type possibleAnswer struct {
	deliveries.Answer
	own, receiver string
}

var (
	ok       = possibleAnswer{deliveries.Answer{Status: http.StatusOK}, "delivered", "delivered"}
	notFound = possibleAnswer{deliveries.Answer{Status: http.StatusNotFound}, "failed", "waiting"}
	noAnswer = possibleAnswer{deliveries.Answer{Err: errors.New("no answer")}, "waiting", "waiting"}
	answers  = []possibleAnswer{
		ok, notFound, noAnswer,
		{deliveries.Answer{Status: http.StatusNoContent}, "delivered", "delivered"},
		{deliveries.Answer{Status: http.StatusGone}, "failed", "failed"},
		{deliveries.Answer{Status: http.StatusFound}, "failed", "waiting"},
		{deliveries.Answer{Status: http.StatusTooManyRequests}, "waiting", "waiting"},
		{deliveries.Answer{Status: http.StatusServiceUnavailable}, "waiting", "waiting"},
	}
)

// resultWritten makes the call, unless that was done, and writes its result down.
func (m *stateModel) resultWritten(t *rapid.T) {
	w, j := m.inHand(t, func(j *modelJob) bool { return !j.back })
	if j.result == nil {
		m.call(t, w, j, one(t, "answer", answers))
	}
	end := m.end(t)
	if end == database.RolledBack {
		m.tx(t, end, func(ctx context.Context) error { // what flushResults does
			written, err := w.Dispatcher.attempts.Finish(ctx, []deliveries.Result{*j.result}, m.now)
			if err != nil {
				return err
			}
			return w.follow(ctx, []deliveries.Result{*j.result}, written, m.now)
		})
		return // it is tried again
	}
	m.write(t, w, j)
	if end == database.Committed {
		m.written(w, j)
	}
}

// written notes that a worker knows that a result is stored.
func (m *stateModel) written(w *modelWorker, j *modelJob) {
	w.release(j.ID)
	m.drop(w, j)
	w.late = append(w.late, j)
}

// call has the destination answer to an attempt. No number of an attempt is ever sent twice.
func (m *stateModel) call(t *rapid.T, w *modelWorker, j *modelJob, answer possibleAnswer) {
	if number := (sentNumber{j.ID, j.Number}); m.numbers[number] {
		t.Fatalf("attempt %d of %s is sent twice", j.Number, j.ID)
	} else {
		m.numbers[number] = true
	}
	outcome := w.schedule.Outcome(j.Destination, answer.Answer, j.Series, m.now,
		rapid.Float64Range(0, 0.999).Draw(t, "jitter"))
	took := time.Duration(rapid.IntRange(1, 1000).Draw(t, "ms")) * time.Millisecond
	result := deliveries.NewResult(j.Begun, answer.Answer, outcome, m.now.Add(-took), took)
	j.result, j.ended = &result, answer.receiver
	if j.Destination == deliveries.OwnEndpoint {
		j.ended = answer.own
	}
	if j.ended == "waiting" && j.Series == modelAttempts {
		j.ended = "dead"
	}
	j.answer = recordedAttempt{result.Began.UnixMicro(), took.Microseconds(), int64(answer.Status), result.Err}
	if answer.Status == 0 {
		j.answer.status = -1
	}
	if wait := outcome.Next.Sub(m.now); j.ended == "waiting" && (wait < modelWait*8/10 || wait > modelWait*12/10) {
		t.Fatalf("the next attempt is due after %s", wait)
	}
}

// write writes a result down as the worker does. Only of the attempt that is under way it changes anything.
func (m *stateModel) write(t *rapid.T, w *modelWorker, j *modelJob) {
	if _, err := w.flushResults(m.t.Context(), []deliveries.Result{*j.result}); err != nil {
		t.Fatal(err)
	}
	d := j.to
	if d.underWay != j.attempt {
		return
	}
	m.wait(d, j.result.Outcome.Next.UnixMicro())
	d.state, d.record[len(d.record)-1] = j.ended, j.answer
	m.paused = m.paused || d.destination == modelSupplier && j.answer.status == http.StatusGone
}

// lateResultWritten writes a result once more that is written already, or that of an attempt that was taken over.
func (m *stateModel) lateResultWritten(t *rapid.T) {
	w := m.worker(t)
	m.write(t, w, one(t, "late result", w.late))
}

// reconciled has a worker ask the database what it holds.
func (m *stateModel) reconciled(t *rapid.T) {
	w, end := m.worker(t), m.end(t)
	if !m.tx(t, end, func(ctx context.Context) error { return w.reconcile(ctx, w.id) }) {
		return
	}
	for _, d := range m.kept {
		known := slices.ContainsFunc(w.jobs, func(j *modelJob) bool { return j.ID == d.id })
		if d.worker == w.id && !known {
			m.wait(d, m.now.UnixMicro())
		}
	}
}

// takenOver has one worker end another's lease, whether it read its last renewal or an earlier one. Those who have none
// any more are taken over from without one.
func (m *stateModel) takenOver(t *rapid.T) {
	w, end, id := m.worker(t), m.end(t), one(t, "other", m.ids)
	until := m.leases[id]
	m.takeOver(t, w, end, id, one(t, "renewal", []int64{until, until - 1, noRenewal, anyRenewal}))
}

func (m *stateModel) takeOver(t *rapid.T, w *modelWorker, end database.End, id, read int64) {
	until, lives := m.leases[id]
	n := int64(0)
	if !m.tx(t, end, func(ctx context.Context) (err error) {
		n, err = w.workers.takeOver(ctx, id, read, m.now)
		return err
	}) {
		return
	}
	if lives && read != until && read != anyRenewal {
		if n != 0 {
			t.Fatalf("%d attempts of a living worker are taken over", n)
		}
		return
	}
	delete(m.leases, id)
	for _, d := range m.kept {
		if d.worker == id {
			m.wait(d, m.now.UnixMicro())
			n--
		}
	}
	if n != 0 {
		t.Fatalf("the number of attempts taken over is wrong by %d", n)
	}
}

// endedByRetention ends what has been pending for longer than the days that are kept.
func (m *stateModel) endedByRetention(t *rapid.T) {
	w, end := m.worker(t), m.end(t)
	before := m.now.Add(-one(t, "age", []time.Duration{time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}))
	if !m.tx(t, end, func(ctx context.Context) error { return w.End(ctx, before, "not delivered in time") }) {
		return
	}
	for _, d := range m.kept {
		if d.destination == modelSupplier && d.state == "waiting" && d.since() < before.UnixMicro() {
			d.state = "dead" // its last attempt keeps its own error
		}
	}
}

// since returns since when the delivery is pending: since its series began to wait for its first attempt, or that
// began. With no series before, it is since it was made.
func (d *keptDelivery) since() int64 {
	switch d.series {
	case 0:
		return d.waits
	case len(d.record):
		return d.created
	default:
		return d.record[len(d.record)-d.series].started
	}
}

// redelivered sends some deliveries again: a waiting one is due now, an ended one begins a new series, and one that a
// worker sends is left to it.
func (m *stateModel) redelivered(t *rapid.T) {
	w, end := m.worker(t), m.end(t)
	m.redeliver(t, w, end, []*keptDelivery{one(t, "delivery", m.kept), one(t, "delivery", m.kept)})
}

func (m *stateModel) redeliver(t *rapid.T, w *modelWorker, end database.End, some []*keptDelivery) {
	ids := make([]string, len(some))
	for i, d := range some {
		ids[i] = d.id
	}
	if !m.tx(t, end, func(ctx context.Context) error {
		_, err := w.Redeliver(ctx, ids...)
		return err
	}) {
		return
	}
	for _, d := range some {
		switch now := m.now.UnixMicro(); d.state {
		case "begun":
		case "waiting":
			d.next = min(d.next, now)
		default:
			m.wait(d, now)
			d.series, d.waits = 0, now
		}
	}
}

func (m *stateModel) timePasses(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 180).Draw(t, "seconds")) * time.Second)
}

// leaseRenewed has a worker say that it lives. One that finds its lease gone registers again; the attempts in its hands
// are another's by then.
func (m *stateModel) leaseRenewed(t *rapid.T) {
	w, until := m.worker(t), m.now.Add(leaseLife)
	rows, err := w.workers.beat(m.t.Context(), w.id, until, nil, m.now)
	if err != nil {
		t.Fatal(err)
	}
	held := slices.ContainsFunc(rows, func(r memberRow) bool { return r.kind == "renewed" })
	if _, lives := m.leases[w.id]; held != lives {
		t.Fatalf("the worker has its lease: %t, want %t", held, lives)
	}
	if held {
		m.leases[w.id] = until.UnixMicro()
		return
	}
	m.register(t, w)
}

// killed starts a worker again, which knows nothing. Its lease and its attempts stay behind.
func (m *stateModel) killed(t *rapid.T) {
	w := m.worker(t)
	m.kill(t, w)
}

func (m *stateModel) kill(t *rapid.T, w *modelWorker) {
	w.jobs, w.late, w.held = nil, nil, map[string]int{}
	m.register(t, w)
}

// shardMoved makes another worker the supplier's owner, which each of them finds out sooner or later.
func (m *stateModel) shardMoved(t *rapid.T) {
	w := m.worker(t)
	m.moveShard(t, w)
	for _, other := range m.workers {
		if rapid.Bool().Draw(t, "finds out") {
			other.ownership.owned = nil
			if other == w {
				other.ownership.owned = []int{round.ShardOf(modelSupplier)}
			}
		}
	}
}

func (m *stateModel) moveShard(t *rapid.T, w *modelWorker) {
	ctx, shard := m.t.Context(), []int{round.ShardOf(modelSupplier)}
	move := func() error { return w.workers.takeShards(ctx, shard, w.id) }
	if _, lives := m.leases[m.shards]; lives {
		move = func() error { return w.workers.giveShards(ctx, shard, m.shards, w.id) }
	}
	if err := move(); err != nil {
		t.Fatal(err)
	}
	m.shards = w.id
}

func (m *stateModel) pausedOrResumed(t *rapid.T) {
	w, ctx := m.worker(t), m.t.Context()
	m.moved = true
	if m.paused = !m.paused; m.paused {
		if err := w.Pause(ctx, modelSupplier, receivers.PausedBySupplier); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := w.Resume(ctx, modelSupplier, receivers.PausedBySupplier); err != nil {
		t.Fatal(err)
	}
	m.caughtUp, m.catchUpTo = 0, 0
	for _, d := range m.kept {
		if d.destination == modelSupplier && d.state == "waiting" {
			m.catchUpTo = d.uid
		}
	}
}

// due returns the waiting deliveries that a claim of n is to take, in their order: first those that a receiver catches
// up with, as they were accepted, then those that have been due for longest.
func (m *stateModel) due(to string, n int) []*keptDelivery {
	var first, rest []*keptDelivery
	for _, d := range m.kept {
		switch {
		case d.destination != to || d.state != "waiting":
		case to == modelSupplier && d.uid > m.caughtUp && d.uid <= m.catchUpTo && len(first) < n:
			first = append(first, d)
		case d.next <= m.now.UnixMicro():
			rest = append(rest, d)
		}
	}
	if to == modelSupplier && m.catchUpTo > 0 {
		if len(first) < n {
			m.catchUpTo = 0
		} else {
			m.caughtUp = first[n-1].uid
		}
	}
	slices.SortStableFunc(rest, func(a, b *keptDelivery) int { return cmp.Compare(a.next, b.next) })
	m.chosen = len(first)
	return append(first, rest...)
}
