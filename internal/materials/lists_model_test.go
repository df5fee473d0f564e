package materials_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	uid      int64
	supplier string
	status   materials.Status
	selected int64 // when; 0: not yet
}

var statuses = []materials.Status{materials.Enqueued, materials.Estimated, materials.Selected, materials.Failed}

type listsModel struct {
	databasetest.Lists[int64, listed]
	p *pipeline
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
			m := &listsModel{p: p}
			m.Rows, m.Store = map[int64]listed{}, m.store
			for range 30 {
				m.Come(rt)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"a request comes": m.Come, "a uid is given out": m.GiveOut, "a request comes late": m.ComeLate,
				"a status changes": m.move, "retention deletes": m.remove, "a list is begun": m.begin, "a page is read": m.Read,
				"a page more is read": m.Read, "a restart": restart,
			})
			m.End(rt)
		})
	})
}

func (m *listsModel) store(t *rapid.T, uid int64) {
	row := listed{uid: uid, supplier: rapid.SampledFrom([]string{"acme", "acme", "other"}).Draw(t, "supplier"),
		status: materials.Enqueued}
	m.p.exec(fmt.Sprintf(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid,
		shard, created_at, updated_at) VALUES ('%s', %d, 'enqueued', '', '', '{}', '', %[2]d, 0, 1, 1)`, row.supplier, uid))
	m.Rows[uid] = row
}

func (m *listsModel) move(t *rapid.T) {
	uid := m.One(t)
	row := m.Rows[uid]
	if row.status == materials.Selected {
		return // it is final
	}
	row.status = rapid.SampledFrom(statuses).Draw(t, "status")
	set := ``
	if row.status == materials.Selected {
		row.selected = m.UID/5 + 1 // several in the same moment
		set = fmt.Sprintf(`, selected_at = %d`, row.selected)
	}
	m.p.exec(fmt.Sprintf(`UPDATE material_requests SET status = '%s'%s WHERE uid = %d`, row.status, set, uid))
	m.Rows[uid] = row
	m.Changed(uid)
}

func (m *listsModel) remove(t *rapid.T) {
	uid := m.One(t)
	m.p.exec(fmt.Sprintf(`DELETE FROM material_requests WHERE uid = %d`, uid))
	delete(m.Rows, uid)
	m.Changed(uid)
}

func (m *listsModel) begin(t *rapid.T) {
	filter := materials.Filter{SupplierID: "acme",
		Status: rapid.SampledFrom(append([]materials.Status{""}, statuses...)).Draw(t, "filter")}
	list := &databasetest.List[int64, listed]{Behind: func(a, b listed) bool { return a.uid < b.uid }}
	path := "" // of the API; empty: the operator's list
	names := []string{"a supplier's", "the operator's", "the operator's of all", "orders"}
	switch rapid.SampledFrom(names).Draw(t, "list") {
	case "a supplier's":
		path = "/api/material-requests?limit=%d"
		if filter.Status != "" {
			path += "&status=" + string(filter.Status)
		}
	case "the operator's of all":
		filter.SupplierID = ""
	case "orders":
		path, filter = "/orders?limit=%d", materials.Filter{Status: materials.Selected}
		list.Behind = func(a, b listed) bool {
			return cmp.Or(cmp.Compare(a.selected, b.selected), cmp.Compare(a.uid, b.uid)) < 0
		}
	}
	list.Name, list.Has = fmt.Sprintf("%s %+v", path, filter), func(row listed) bool {
		return (filter.SupplierID == "" || row.supplier == filter.SupplierID) &&
			(filter.Status == "" || row.status == filter.Status)
	}
	if list.Page = m.answers(path); path == "" {
		list.Page = m.overviews(filter)
	}
	m.Begin(t, list)
}

func (m *listsModel) overviews(filter materials.Filter) func(*rapid.T, int) ([]int64, bool) {
	behind := int64(materials.Newest)
	return func(t *rapid.T, limit int) (uids []int64, end bool) {
		page, next, err := m.p.requests.Overviews(context.Background(), filter, behind, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page {
			uids = append(uids, o.UID)
		}
		behind = next
		return uids, next == 0
	}
}

// answers reads a list by its cursors.
func (m *listsModel) answers(path string) func(*rapid.T, int) ([]int64, bool) {
	cursor := ""
	return func(t *rapid.T, limit int) (uids []int64, end bool) {
		request := httptest.NewRequest(http.MethodGet, strings.TrimSuffix(fmt.Sprintf(path, limit)+"&cursor="+cursor,
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
		if answer.Next == nil {
			return uids, true
		}
		cursor = *answer.Next
		return uids, false
	}
}
