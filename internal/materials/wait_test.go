package materials_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func (p *pipeline) wait(id, wait string) *httptest.ResponseRecorder {
	return p.call(http.MethodGet, "/api/material-requests/"+id+"?wait="+wait, "", "X-Supplier", "acme")
}

func TestWait_ends_when_another_process_changes_the_request(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		one := newPipeline(t, db, nil)
		two := newPipeline(t, db, nil)
		two.secret = one.secret
		for id := range int64(3) {
			expect(t, one.post("acme", body(id, nil)), 201)
		}
		var answered sync.WaitGroup
		answers := make([]*httptest.ResponseRecorder, 3)
		for i := range answers {
			answered.Go(func() { answers[i] = two.wait(string(rune('0'+i)), "60s") })
		}
		expect(t, one.deliver("msg_0", event("acme", 0, noon, "e")), 200)
		if err := one.MarkFailed(t.Context(), one.round("acme", 1), "no service"); err != nil {
			t.Fatal(err)
		}
		expect(t, one.deliver("msg_2", event("acme", 2, noon, "e")), 200)
		answered.Wait()
		for i, want := range []string{"estimated", "failed", "estimated"} {
			if got := answers[i]; got.Code != 200 || !strings.Contains(got.Body.String(), `"status":"`+want+`"`) {
				t.Errorf("request %d: %d %s", i, got.Code, got.Body)
			}
		}
	})
}

func TestWait_answers_at_once_what_is_not_enqueued(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	expect(t, p.post("acme", body(1, nil)), 201)
	expect(t, p.deliver("msg_1", event("acme", 1, noon, "e")), 200)
	expect(t, p.wait("1", "60s"), 200)
	expect(t, p.wait("2", "60s"), 404)
}

func TestWait_ends_with_its_time_and_shows_the_request_as_it_is(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	expect(t, p.post("acme", body(1, nil)), 201)
	for _, wait := range []string{"0s", "1ms", "300ms"} {
		if got := p.wait("1", wait); got.Code != 200 || !strings.Contains(got.Body.String(), `"status":"enqueued"`) {
			t.Errorf("wait=%s: %d %s", wait, got.Code, got.Body)
		}
	}
}

func TestWait_refuses_what_is_no_duration_of_at_most_60s(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	expect(t, p.post("acme", body(1, nil)), 201)
	for _, wait := range []string{"", "61s", "-1s", "30", "x", "1s&wait=1s"} {
		expect(t, p.wait("1", wait), 400)
	}
}

func TestWait_ends_when_the_service_stops(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	expect(t, p.post("acme", body(1, nil)), 201)
	answer := make(chan *httptest.ResponseRecorder, 1)
	go func() { answer <- p.wait("1", "60s") }()
	p.StopWaiting()
	if got := <-answer; got.Code != 200 {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

func TestWait_takes_a_bounded_number_of_callers(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	expect(t, p.post("acme", body(1, nil)), 201)
	ctx, hangUp := context.WithCancel(t.Context())
	const limit = 1000
	codes := make(chan int, limit+1)
	for range limit + 1 {
		go func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/material-requests/1?wait=60s", nil)
			r.Header.Set("X-Supplier", "acme")
			w := httptest.NewRecorder()
			p.http.ServeHTTP(w, r)
			codes <- w.Code
		}()
	}
	if code := <-codes; code != http.StatusServiceUnavailable {
		t.Errorf("the caller over the limit gets %d", code)
	}
	hangUp()
	for range limit {
		<-codes
	}
	expect(t, p.wait("1", "1ms"), 200)
	expect(t, p.deliver("msg_1", event("acme", 1, noon, "e")), 200)
	expect(t, p.wait("1", "60s"), 200)
}
