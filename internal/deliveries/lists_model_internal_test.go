package deliveries

import (
	"context"
	"fmt"
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

type listModel struct {
	databasetest.Lists[string, listedDelivery]
	t      *testing.T
	db     *database.DB
	s      *SelfService
	rounds map[int64]int64 // of the stored requests, by uid
}

// Contract 1: following next_cursor to null shows every row that was there at the start once, whatever comes and goes.
func TestLists_show_every_delivery_once_whatever_comes_and_goes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		databasetest.Walk(t, func(rt *rapid.T) {
			exec(t.Context(), t, db, `DELETE FROM webhook_events`)
			exec(t.Context(), t, db, `DELETE FROM webhook_deliveries`)
			m := &listModel{t: t, db: db, rounds: map[int64]int64{}}
			m.Rows, m.Store = map[string]listedDelivery{}, m.store
			restart := func(*rapid.T) { m.s = selfService(t, db, time.Now()) }
			restart(nil)
			for range 20 {
				m.Come(rt)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"a request is estimated": m.Come, "a uid is given out": m.GiveOut, "one is estimated late": m.ComeLate,
				"one is estimated again": m.estimatedAgain, "a status changes": m.move, "a worker begins or ends": m.attempt,
				"retention deletes": m.remove, "a list is begun": m.begin, "a page is read": m.Read, "a page more is read": m.Read,
				"a restart": restart,
			})
			m.End(rt)
		})
	})
}

func (m *listModel) estimatedAgain(t *rapid.T) { m.store(t, m.Rows[m.One(t)].key.UID) }

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
		m.Rows[id] = listedDelivery{Key{uid, m.rounds[uid], int64(kind)}, Pending, e.At}
	}
}

func (m *listModel) move(t *rapid.T) {
	id := m.One(t)
	row := m.Rows[id]
	row.status = rapid.SampledFrom(statuses).Draw(t, "status")
	exec(m.t.Context(), m.t, m.db, `UPDATE webhook_deliveries SET status = ?, worker = NULL WHERE id = ?`, row.status, id)
	m.Rows[id] = row
	m.Changed(id)
}

// attempt changes nothing in a list.
func (m *listModel) attempt(t *rapid.T) {
	exec(m.t.Context(), m.t, m.db, `UPDATE webhook_deliveries SET worker = CASE WHEN worker IS NULL THEN 7 END
		WHERE status = 'pending' AND id = ?`, m.One(t))
}

func (m *listModel) remove(t *rapid.T) {
	uid := m.Rows[m.One(t)].key.UID
	exec(m.t.Context(), m.t, m.db, `DELETE FROM webhook_deliveries WHERE uid = ?`, uid)
	exec(m.t.Context(), m.t, m.db, `DELETE FROM webhook_events WHERE uid = ?`, uid)
	for id, row := range m.Rows {
		if row.key.UID == uid {
			delete(m.Rows, id)
			m.Changed(id)
		}
	}
}

// begin begins the supplier's list by its cursors, or the operator's.
func (m *listModel) begin(t *rapid.T) {
	var request *int64
	filter := Filter{Status: rapid.SampledFrom(append([]Status{""}, statuses...)).Draw(t, "status")}
	sent := rapid.Bool().Draw(t, "the supplier's")
	if sent || rapid.Bool().Draw(t, "to a receiver") {
		filter.Receiver = "acme"
	}
	if rapid.Bool().Draw(t, "timed") {
		filter.Since = time.UnixMicro(rapid.Int64Range(1, 5).Draw(t, "since"))
		filter.Until = time.UnixMicro(rapid.Int64Range(5, 10).Draw(t, "until"))
	}
	if rapid.IntRange(0, 4).Draw(t, "of") == 0 && sent {
		request = new(rapid.Int64Range(1, 2).Draw(t, "request")) // those that requests knows
	}
	if !sent && rapid.IntRange(0, 2).Draw(t, "the operator's of requests") == 0 {
		filter.Requests = rapid.SliceOfNDistinct(rapid.Int64Range(1, 10), 0, 5, rapid.ID).Draw(t, "requests")
		slices.Sort(filter.Requests)
		slices.Reverse(filter.Requests)
	}
	since, until, _ := filter.times()
	list := &databasetest.List[string, listedDelivery]{
		Name: filter, Page: m.operators(filter),
		Has: func(d listedDelivery) bool {
			return (filter.Receiver == "" || d.key.Kind == int64(round.Receiver)) &&
				(filter.Status == "" || d.status == filter.Status) && d.made >= since && d.made < until &&
				(request == nil || d.key.UID == *request) &&
				(filter.Requests == nil || slices.Contains(filter.Requests, d.key.UID))
		},
		Behind: func(a, b listedDelivery) bool { return a.key.compare(b.key) < 0 },
	}
	if sent {
		list.Page = m.suppliers(SentFilter{Status: filter.Status, RequestID: request, Since: filter.Since,
			Until: filter.Until})
	}
	m.Begin(t, list)
}

func (m *listModel) operators(filter Filter) func(*rapid.T, int) ([]string, bool) {
	behind := Key{}
	return func(t *rapid.T, limit int) (ids []string, end bool) {
		page, next, err := m.s.deps.Deliveries.List(context.Background(), filter, behind, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range page {
			ids = append(ids, one.ID)
		}
		behind = next
		return ids, next.IsZero()
	}
}

func (m *listModel) suppliers(filter SentFilter) func(*rapid.T, int) ([]string, bool) {
	cursor := ""
	return func(t *rapid.T, limit int) (ids []string, end bool) {
		items, next, err := m.s.List(context.Background(), "acme", filter, httpapi.ListQuery{Limit: limit, Cursor: cursor})
		if err != nil {
			t.Fatal(fmt.Sprint(filter, err))
		}
		for _, one := range items {
			ids = append(ids, one.ID)
		}
		cursor = next
		return ids, next == ""
	}
}
