package materials_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/materials"
)

// listed is what the model knows of a stored request, whose id is its uid.
type listed struct {
	supplier string
	status   materials.Status
	selected int64 // when; 0: not yet
}

// walk reads a list to its end, while rows come, change and go.
type walk struct {
	path     string                       // of the API; empty: the operator's list
	filter   materials.Filter             // of the API's, SupplierID is the caller
	in       func(listed) bool            // the list has the row
	order    func(listed, int64) [2]int64 // of its rows, by their uid
	cursor   string
	behind   int64
	expected map[int64]bool // rows that were there at the start and never left the list
	seen     map[int64]bool
	last     [2]int64
	ended    bool
}

var statuses = []materials.Status{materials.Enqueued, materials.Estimated, materials.Selected, materials.Failed}

type listsModel struct {
	p     *pipeline
	rows  map[int64]listed
	uid   int64
	late  []int64 // uids that were given out, whose requests are committed later
	walks []*walk
}

// Contract 1: following next_cursor to null shows every row that was there at the start once, whatever comes and goes.
func TestLists_show_every_row_once_whatever_comes_and_goes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		restart := func(*rapid.T) {
			p.requests.Close()
			cursors, err := cursor.New("a key")
			if err != nil {
				t.Fatal(err)
			}
			p.requests.Service = materials.New(materials.Deps{DB: db, Now: p.clock, Publisher: nowhere{}, Outbox: p.world,
				Flushers: 1, Cursors: cursors})
			p.http = routes(t, materials.Handlers{Service: p.requests.Service})
		}
		restart(nil)
		databasetest.Walk(t, func(rt *rapid.T) {
			p.exec(`DELETE FROM material_requests`)
			m := &listsModel{p: p, rows: map[int64]listed{}}
			for range 30 {
				m.insert(rt)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"a request comes": m.insert, "a uid is given out": m.giveOut, "a request comes late": m.insertLate,
				"a status changes": m.move, "retention deletes": m.remove, "a walk begins": m.begin, "a page is read": m.read,
				"a page more is read": m.read, "a restart": restart,
			})
			for _, w := range m.walks {
				for !w.ended {
					m.page(rt, w)
				}
			}
		})
	})
}

func (m *listsModel) insert(t *rapid.T) {
	m.uid++
	m.store(t, m.uid)
}

func (m *listsModel) giveOut(*rapid.T) {
	m.uid++
	m.late = append(m.late, m.uid)
}

func (m *listsModel) insertLate(t *rapid.T) {
	if len(m.late) == 0 {
		t.Skip("no uid was given out")
	}
	m.store(t, m.late[0])
	m.late = m.late[1:]
}

func (m *listsModel) store(t *rapid.T, uid int64) {
	row := listed{supplier: rapid.SampledFrom([]string{"acme", "acme", "other"}).Draw(t, "supplier"),
		status: materials.Enqueued}
	m.p.exec(fmt.Sprintf(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid,
		created_at, updated_at) VALUES ('%s', %d, 'enqueued', '', '', '{}', '', %[2]d, 1, 1)`, row.supplier, uid))
	m.rows[uid] = row
}

// one draws a stored request.
func (m *listsModel) one(t *rapid.T) int64 {
	if len(m.rows) == 0 {
		t.Skip("nothing is stored")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.rows))).Draw(t, "request")
}

func (m *listsModel) move(t *rapid.T) {
	uid := m.one(t)
	row := m.rows[uid]
	if row.status == materials.Selected {
		return // it is final
	}
	row.status = rapid.SampledFrom(statuses).Draw(t, "status")
	set := ``
	if row.status == materials.Selected {
		row.selected = m.uid/5 + 1 // several in the same moment
		set = fmt.Sprintf(`, selected_at = %d`, row.selected)
	}
	m.p.exec(fmt.Sprintf(`UPDATE material_requests SET status = '%s'%s WHERE uid = %d`, row.status, set, uid))
	m.rows[uid] = row
	m.left(uid)
}

func (m *listsModel) remove(t *rapid.T) {
	uid := m.one(t)
	m.p.exec(fmt.Sprintf(`DELETE FROM material_requests WHERE uid = %d`, uid))
	delete(m.rows, uid)
	m.left(uid)
}

// left has no walk expect the row that it need not show any more.
func (m *listsModel) left(uid int64) {
	for _, w := range m.walks {
		if row, stored := m.rows[uid]; !stored || !w.in(row) {
			delete(w.expected, uid)
		}
	}
}

func (m *listsModel) begin(t *rapid.T) {
	status := rapid.SampledFrom(append([]materials.Status{""}, statuses...)).Draw(t, "filter")
	w := &walk{behind: materials.Newest, expected: map[int64]bool{}, seen: map[int64]bool{},
		filter: materials.Filter{SupplierID: "acme", Status: status},
		order:  func(_ listed, uid int64) [2]int64 { return [2]int64{0, uid} }}
	switch rapid.SampledFrom([]string{"a supplier's", "the operator's", "the operator's of all", "orders"}).Draw(t, "list") {
	case "a supplier's":
		w.path = "/api/material-requests?limit=%d"
		if status != "" {
			w.path += "&status=" + string(status)
		}
	case "the operator's of all":
		w.filter.SupplierID = ""
	case "orders":
		w.path, w.filter = "/orders?limit=%d", materials.Filter{Status: materials.Selected}
		w.order = func(row listed, uid int64) [2]int64 { return [2]int64{row.selected, uid} }
	}
	w.in = func(row listed) bool {
		return (w.filter.SupplierID == "" || row.supplier == w.filter.SupplierID) &&
			(w.filter.Status == "" || row.status == w.filter.Status)
	}
	for uid, row := range m.rows {
		if w.in(row) {
			w.expected[uid] = true
		}
	}
	m.walks = append(m.walks, w)
	m.page(t, w)
}

func (m *listsModel) read(t *rapid.T) {
	open := slices.DeleteFunc(slices.Clone(m.walks), func(w *walk) bool { return w.ended })
	if len(open) == 0 {
		t.Skip("no walk is under way")
	}
	m.page(t, rapid.SampledFrom(open).Draw(t, "walk"))
}

// page reads the next page of the walk, and at its end asks whether all was seen.
func (m *listsModel) page(t *rapid.T, w *walk) {
	limit := rapid.IntRange(1, 9).Draw(t, "limit")
	var uids []int64
	if w.path == "" {
		page, next, err := m.p.requests.Overviews(context.Background(), w.filter, w.behind, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page {
			uids = append(uids, o.UID)
		}
		w.behind, w.ended = next, next == 0
	} else {
		uids = m.answer(t, w, limit)
	}
	if len(uids) > limit {
		t.Fatalf("a page of %d has %d rows", limit, len(uids))
	}
	for _, uid := range uids {
		row, stored := m.rows[uid]
		place := w.order(row, uid)
		if !stored || !w.in(row) || w.seen[uid] {
			t.Fatalf("%+v shows %d, which is %+v and was seen: %t", w.filter, uid, row, w.seen[uid])
		}
		if len(w.seen) > 0 && (place[0] > w.last[0] || place[0] == w.last[0] && place[1] >= w.last[1]) {
			t.Fatalf("%+v shows %v behind %v", w.filter, place, w.last)
		}
		w.seen[uid], w.last = true, place
	}
	for uid := range w.expected {
		if w.ended && !w.seen[uid] {
			t.Fatalf("%s %+v never showed %d: %+v", w.path, w.filter, uid, m.rows[uid])
		}
	}
}

func (m *listsModel) answer(t *rapid.T, w *walk, limit int) (uids []int64) {
	request := httptest.NewRequest(http.MethodGet, strings.TrimSuffix(fmt.Sprintf(w.path, limit)+"&cursor="+w.cursor,
		"&cursor="), nil)
	request.Header.Set("X-Supplier", "acme")
	recorder := httptest.NewRecorder()
	m.p.http.ServeHTTP(recorder, request)
	var answer struct {
		Data []struct{ ID int64 }
		Next *string `json:"next_cursor"`
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil || recorder.Code != http.StatusOK {
		t.Fatalf("%s: %d %s: %v", request.URL, recorder.Code, recorder.Body, err)
	}
	for _, row := range answer.Data {
		uids = append(uids, row.ID)
	}
	if w.ended = answer.Next == nil; !w.ended {
		w.cursor = *answer.Next
	}
	return uids
}
