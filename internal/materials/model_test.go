package materials_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/materials/operator"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// life is what the model knows of an accepted request: everything about it follows from numbers.
type life struct {
	at        round.Round
	status    materials.Status
	received  int64 // the latest round whose own event was taken
	estimates string
	began     time.Time // when the round began
	posted    time.Time // of the latest event of this round that a supplier posted
}

// made is an event of the service's own, which may arrive at any time, several times.
type made struct {
	round.Round
	event webhook.Event
}

// modelRun drives two processes whose clocks are 20 minutes apart, and the model along with them.
type modelRun struct {
	processes []*pipeline
	supplier  string
	lives     map[int64]*life
	made      []made
	n         int
}

// Whatever comes late, again or from a former life, a request is in the state that its own round's events put it in.
func TestRounds_hold_against_a_model_over_two_processes_with_different_clocks(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		a := newPipeline(t, db, nil)
		a.now.Store(noon.Add(-10 * time.Minute).UnixMicro())
		b := newPipeline(t, db, func(d *materials.Deps) { d.Secrets = []webhook.Secret{a.secret} })
		b.secret = a.secret
		b.now.Store(noon.Add(10 * time.Minute).UnixMicro())
		runs := 0
		databasetest.Walk(t, func(rt *rapid.T) {
			runs++
			m := &modelRun{processes: []*pipeline{a, b}, supplier: fmt.Sprintf("s%d", runs), lives: map[int64]*life{}}
			rt.Repeat(map[string]func(*rapid.T){
				"submit": m.submit, "estimate": m.estimate, "an own event arrives": m.arrive, "a supplier posts": m.post,
				"re-estimate": m.reestimate, "a delivery dies": m.die, "redeliver": m.redeliver, "retention": m.retain, "": m.check,
			})
		})
	})
}

func (m *modelRun) process(t *rapid.T) *pipeline {
	return rapid.SampledFrom(m.processes).Draw(t, "process")
}

func (m *modelRun) id(t *rapid.T) int64 { return rapid.Int64Range(1, 2).Draw(t, "id") }

func (m *modelRun) submit(t *rapid.T) {
	id, p := m.id(t), m.process(t)
	if err := p.Submit(context.Background(), request(m.supplier, id, "SP-1")); err != nil {
		t.Fatal(err)
	}
	if m.lives[id] == nil {
		m.lives[id] = &life{at: m.processes[0].round(m.supplier, id), status: materials.Enqueued, began: p.clock()}
	}
}

func (m *modelRun) estimate(t *rapid.T) {
	l := m.lives[m.id(t)]
	if l == nil || l.status != materials.Enqueued {
		t.Skip()
	}
	p := m.process(t)
	if err := p.Work([]round.Round{l.at}); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(m.made, func(e made) bool { return e.Round == l.at }) {
		m.n++
		m.made = append(m.made, made{l.at, event(m.supplier, l.at.RequestID, p.clock(), fmt.Sprint("own", m.n))})
	}
}

func (m *modelRun) arrive(t *rapid.T) {
	if len(m.made) == 0 {
		t.Skip()
	}
	e := rapid.SampledFrom(m.made).Draw(t, "event")
	l, want := m.lives[e.RequestID], 200
	switch {
	case l == nil:
		want = 404
	case l.at == e.Round && l.received < e.Number:
		l.status, l.received, l.estimates = materials.Estimated, e.Number, e.event.Data.Estimates[0].EstimateID
	}
	m.expect(t, m.process(t).deliverOwn(e.Round, e.event), want)
}

func (m *modelRun) post(t *rapid.T) {
	id, p := m.id(t), m.process(t)
	at := noon.Add(time.Duration(rapid.IntRange(-30, 30).Draw(t, "minutes")) * time.Minute)
	m.n++
	name := fmt.Sprint("theirs", m.n)
	l, want := m.lives[id], 200
	switch {
	case at.After(p.clock().Add(5 * time.Minute)):
		want = 400
	case l == nil:
		want = 404
	case !at.Before(l.posted) && !at.Before(l.began.Add(-5*time.Minute)):
		l.status, l.estimates, l.posted = materials.Estimated, name, at
	}
	m.expect(t, p.deliver(name, event(m.supplier, id, at, name)), want)
}

func (m *modelRun) reestimate(t *rapid.T) {
	id, p := m.id(t), m.process(t)
	l, want := m.lives[id], 202
	if l == nil {
		want = 404
	} else if l.status != materials.Enqueued {
		l.status, l.began, l.posted, l.at.Number = materials.Enqueued, p.clock(), time.Time{}, l.at.Number+1
	}
	m.expect(t, p.reestimate(m.supplier, id), want)
}

func (m *modelRun) die(t *rapid.T) {
	if len(m.made) == 0 {
		t.Skip()
	}
	e := rapid.SampledFrom(m.made).Draw(t, "event")
	if err := m.process(t).MarkFailed(context.Background(), e.Round, "dead"); err != nil {
		t.Fatal(err)
	}
	if l := m.lives[e.RequestID]; l != nil && l.at == e.Round && l.status == materials.Enqueued {
		l.status = materials.Failed
	}
}

func (m *modelRun) redeliver(t *rapid.T) {
	if len(m.made) == 0 {
		t.Skip()
	}
	e := rapid.SampledFrom(m.made).Draw(t, "event")
	if err := m.process(t).MarkRedelivered(context.Background(), e.Round); err != nil {
		t.Fatal(err)
	}
	if l := m.lives[e.RequestID]; l != nil && l.at == e.Round && l.status == materials.Failed {
		l.status = materials.Enqueued
	}
}

// retain deletes what is not enqueued; its ids may then be used again.
func (m *modelRun) retain(t *rapid.T) {
	if _, err := m.processes[0].operator.Prune(context.Background(), operator.Before(noon.Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	for id, l := range m.lives {
		if l.status != materials.Enqueued {
			delete(m.lives, id)
		}
	}
}

func (m *modelRun) check(t *rapid.T) {
	for id, l := range m.lives {
		r := m.processes[0].row(m.supplier, id)
		if r.Status != string(l.status) || r.UID != l.at.UID || r.Round != l.at.Number {
			t.Fatalf("request %d is %s in round %d of %d, want %s in %d of %d", id, r.Status, r.Round, r.UID, l.status,
				l.at.Number, l.at.UID)
		}
		var want []string // a request that has none shows no earlier round's
		if l.status == materials.Estimated {
			want = []string{l.estimates}
		}
		got := m.processes[0].get(m.supplier, fmt.Sprint("/", id))
		if shown := shownEstimates(got); !slices.Equal(shown, want) || len(got["unavailable"].([]any)) != len(want) {
			t.Fatalf("request %d shows %v and %v, want %v", id, shown, got["unavailable"], want)
		}
		sent := slices.ContainsFunc(m.made, func(e made) bool { return e.Round == l.at })
		if l.status == materials.Enqueued && !sent && r.DueAt == nil {
			t.Fatalf("request %d is enqueued and nothing would ever estimate it", id)
		}
	}
}

// shownEstimates are the ids of the estimates that an answer shows.
func shownEstimates(request object) (ids []string) {
	for _, e := range request["estimates"].([]any) {
		ids = append(ids, e.(object)["estimate_id"].(string))
	}
	return ids
}

func (m *modelRun) expect(t *rapid.T, got *httptest.ResponseRecorder, want int) {
	if got.Code != want {
		t.Fatalf("status %d, want %d: %s", got.Code, want, got.Body)
	}
}
