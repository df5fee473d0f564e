package deliveries

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/round"
)

// listedDelivery is what the model knows of a stored delivery.
type listedDelivery struct {
	key    Key
	status Status
	made   int64
}

// listWalk reads a list to its end, while rows come, change and go.
type listWalk struct {
	sent     bool // the supplier's list by its cursors; else the operator's
	filter   Filter
	request  *int64
	cursor   string
	behind   Key
	expected map[string]bool // rows that were there at the start and never left the list
	seen     map[string]bool
	last     Key
	ended    bool
}

func (w *listWalk) in(d listedDelivery) bool {
	since, until, _ := w.filter.times()
	return (w.filter.Receiver == "" || d.key.Kind == int64(round.Receiver)) &&
		(w.filter.Status == "" || d.status == w.filter.Status) && d.made >= since && d.made < until &&
		(w.request == nil || d.key.UID == *w.request)
}

type listModel struct {
	t      *testing.T
	db     *database.DB
	s      *SelfService
	rows   map[string]listedDelivery
	rounds map[int64]int64 // of the stored requests, by uid
	uid    int64
	late   []int64 // uids that were given out, whose events are stored later
	walks  []*listWalk
}

// Contract 1: following next_cursor to null shows every row that was there at the start once, whatever comes and goes.
func TestLists_show_every_delivery_once_whatever_comes_and_goes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		databasetest.Walk(t, func(rt *rapid.T) {
			exec(t.Context(), t, db, `DELETE FROM webhook_events`)
			exec(t.Context(), t, db, `DELETE FROM webhook_deliveries`)
			m := &listModel{t: t, db: db, rows: map[string]listedDelivery{}, rounds: map[int64]int64{}}
			restart := func(*rapid.T) { m.s = selfService(t, db, time.Now()) }
			restart(nil)
			for range 20 {
				m.estimated(rt)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"a request is estimated": m.estimated, "a uid is given out": m.giveOut, "one is estimated late": m.estimatedLate,
				"one is estimated again": m.estimatedAgain, "a status changes": m.move, "a worker begins or ends": m.attempt,
				"retention deletes": m.remove, "a walk begins": m.begin, "a page is read": m.read, "a page more is read": m.read,
				"a restart": restart,
			})
			for _, w := range m.walks {
				for !w.ended {
					m.page(rt, w)
				}
			}
		})
	})
}

func (m *listModel) estimated(t *rapid.T) {
	m.uid++
	m.store(t, m.uid)
}

func (m *listModel) giveOut(*rapid.T) {
	m.uid++
	m.late = append(m.late, m.uid)
}

func (m *listModel) estimatedLate(t *rapid.T) {
	if len(m.late) == 0 {
		t.Skip("no uid was given out")
	}
	m.store(t, m.late[0])
	m.late = m.late[1:]
}

func (m *listModel) estimatedAgain(t *rapid.T) { m.store(t, m.one(t).key.UID) }

// store stores the event of a request's next round with its deliveries.
func (m *listModel) store(t *rapid.T, uid int64) {
	m.rounds[uid]++
	e := round.Event{UID: uid, At: rapid.Int64Range(1, 9).Draw(t, "made"), Nonce: uid<<20 + m.rounds[uid]}
	exec(m.t.Context(), m.t, m.db, `INSERT INTO webhook_events (uid, round, nonce, supplier_id, trace_id, body, created_at)
		VALUES (?, ?, ?, 'acme', '', '', ?)`, uid, m.rounds[uid], e.Nonce, e.At)
	destinations := []string{OwnEndpoint, "acme"}[:rapid.IntRange(1, 2).Draw(t, "deliveries")]
	for kind, destination := range destinations {
		id := e.WebhookID(round.Kind(kind))
		exec(m.t.Context(), m.t, m.db, `INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id,
				status, attempts, series, next_attempt_at, created_at, updated_at)
			VALUES (?, ?, ?, ?, 'acme', ?, 'pending', 0, 0, 0, ?, 1)`, id, uid, m.rounds[uid], destination, uid, e.At)
		m.rows[id] = listedDelivery{Key{uid, m.rounds[uid], int64(kind)}, Pending, e.At}
	}
}

// oneID draws a stored delivery.
func (m *listModel) oneID(t *rapid.T) string {
	if len(m.rows) == 0 {
		t.Skip("nothing is stored")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.rows))).Draw(t, "delivery")
}

func (m *listModel) one(t *rapid.T) listedDelivery { return m.rows[m.oneID(t)] }

func (m *listModel) move(t *rapid.T) {
	id := m.oneID(t)
	row := m.rows[id]
	row.status = rapid.SampledFrom(statuses).Draw(t, "status")
	exec(m.t.Context(), m.t, m.db, `UPDATE webhook_deliveries SET status = ?, worker = NULL WHERE id = ?`, row.status, id)
	m.rows[id] = row
	m.left(id)
}

// attempt changes nothing in a list.
func (m *listModel) attempt(t *rapid.T) {
	exec(m.t.Context(), m.t, m.db, `UPDATE webhook_deliveries SET worker = CASE WHEN worker IS NULL THEN 7 END
		WHERE status = 'pending' AND id = ?`, m.oneID(t))
}

func (m *listModel) remove(t *rapid.T) {
	uid := m.one(t).key.UID
	exec(m.t.Context(), m.t, m.db, `DELETE FROM webhook_deliveries WHERE uid = ?`, uid)
	exec(m.t.Context(), m.t, m.db, `DELETE FROM webhook_events WHERE uid = ?`, uid)
	for id, row := range m.rows {
		if row.key.UID == uid {
			delete(m.rows, id)
			m.left(id)
		}
	}
}

// left has no walk expect the row that it need not show any more.
func (m *listModel) left(id string) {
	for _, w := range m.walks {
		if row, stored := m.rows[id]; !stored || !w.in(row) {
			delete(w.expected, id)
		}
	}
}

func (m *listModel) begin(t *rapid.T) {
	w := &listWalk{sent: rapid.Bool().Draw(t, "the supplier's"), expected: map[string]bool{}, seen: map[string]bool{},
		filter: Filter{Status: rapid.SampledFrom(append([]Status{""}, statuses...)).Draw(t, "status")}}
	if w.sent || rapid.Bool().Draw(t, "to a receiver") {
		w.filter.Receiver = "acme"
	}
	if rapid.Bool().Draw(t, "timed") {
		w.filter.Since = time.UnixMicro(rapid.Int64Range(1, 5).Draw(t, "since"))
		w.filter.Until = time.UnixMicro(rapid.Int64Range(5, 10).Draw(t, "until"))
	}
	if rapid.IntRange(0, 4).Draw(t, "of") == 0 && w.sent {
		w.request = new(rapid.Int64Range(1, 2).Draw(t, "request")) // those that requests knows
	}
	for id, row := range m.rows {
		if w.in(row) {
			w.expected[id] = true
		}
	}
	m.walks = append(m.walks, w)
	m.page(t, w)
}

func (m *listModel) read(t *rapid.T) {
	open := slices.DeleteFunc(slices.Clone(m.walks), func(w *listWalk) bool { return w.ended })
	if len(open) == 0 {
		t.Skip("no walk is under way")
	}
	m.page(t, rapid.SampledFrom(open).Draw(t, "walk"))
}

// page reads the next page of the walk, and at its end asks whether all was seen.
func (m *listModel) page(t *rapid.T, w *listWalk) {
	limit := rapid.IntRange(1, 9).Draw(t, "limit")
	ids := m.ids(t, w, limit)
	if len(ids) > limit {
		t.Fatalf("a page of %d has %d rows", limit, len(ids))
	}
	for _, id := range ids {
		row, stored := m.rows[id]
		if !stored || !w.in(row) || w.seen[id] {
			t.Fatalf("%+v shows %s, which is %+v and was seen: %t", w.filter, id, row, w.seen[id])
		}
		if len(w.seen) > 0 && row.key.compare(w.last) >= 0 {
			t.Fatalf("%+v shows %v behind %v", w.filter, row.key, w.last)
		}
		w.seen[id], w.last = true, row.key
	}
	for id := range w.expected {
		if w.ended && !w.seen[id] {
			t.Fatalf("%+v never showed %s: %+v", w.filter, id, m.rows[id])
		}
	}
}

func (m *listModel) ids(t *rapid.T, w *listWalk, limit int) (ids []string) {
	ctx := context.Background()
	if !w.sent {
		page, next, err := m.s.deps.Deliveries.List(ctx, w.filter, w.behind, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range page {
			ids = append(ids, one.ID)
		}
		w.behind, w.ended = next, next.IsZero()
		return ids
	}
	filter := SentFilter{Status: w.filter.Status, RequestID: w.request, Since: w.filter.Since, Until: w.filter.Until}
	items, next, err := m.s.List(ctx, "acme", filter, httpapi.ListQuery{Limit: limit, Cursor: w.cursor})
	if err != nil {
		t.Fatal(fmt.Sprint(filter, err))
	}
	for _, one := range items {
		ids = append(ids, one.ID)
	}
	w.cursor, w.ended = next, next == ""
	return ids
}
