package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// oftenCalled are the callers of the sweep's load that cost little: over HTTP alone.
func (s *sweep) oftenCalled() []func(round int) {
	tracker := newTrackerClient(s.t, s.hub)
	tracker.load(s.t, tracked("A", 1, "2026-11-20", nil, nil), tracked("B", 2, "2026-11-20", nil, nil))
	return []func(int){s.chooses, s.recovers, s.reopens, s.sessions, s.visits, s.moves, s.consoles, s.ails,
		func(round int) { s.synchronises(round); s.scores(round); s.crawls(tracker, round) }}
}

// asks calls as the supplier. The answer is an expected one, or there is none, which is what the sweep is about.
func (s *sweep) asks(as *sweepSupplier, method, path string, body any, expected ...int) (
	a apptest.Answer, answered bool) {
	s.t.Helper()
	return s.tries(method, path, body, expected, "Authorization", "Bearer "+as.AccessToken())
}

func (s *sweep) tries(method, path string, body any, expected []int, headers ...string) (apptest.Answer, bool) {
	s.t.Helper()
	a, err := s.hub.Try(s.t, s.hub.URL(int(s.turn.Add(1)), path), method, body, headers...)
	if err != nil || a.Status >= 500 {
		return a, false
	}
	if !slices.Contains(expected, a.Status) {
		s.t.Errorf("%s %s: %d, expected %v: %s", method, path, a.Status, expected, a.Body)
	}
	return a, true
}

// comes asks until the request has one of the states, for a while.
func (s *sweep) comes(of *sweepSupplier, id int64, states ...string) (r record, there bool) {
	for range 100 {
		if a, ok := s.asks(of, http.MethodGet, requestPath(id), nil, 200); ok {
			if r = apptest.Decode[record](s.t, a); slices.Contains(states, r.Status) {
				return r, true
			}
		}
		time.Sleep(retryPause)
	}
	return r, false
}

// posted sends a request until it is accepted and returns its id.
func (s *sweep) posted(to *sweepSupplier, changes object) int64 {
	id := nextID()
	for !s.t.Failed() {
		if _, ok := s.asks(to, http.MethodPost, requests, request(id, changes), 201); ok {
			to.accepted(id)
			break
		}
		time.Sleep(retryPause)
	}
	return id
}

// chooses selects an estimate, or has the request estimated again, or has what was sent of it sent again.
func (s *sweep) chooses(round int) {
	id := s.posted(s.steady, nil)
	r, there := s.comes(s.steady, id, "estimated")
	if !there {
		return
	}
	switch round % 3 {
	case 0:
		s.asks(s.steady, http.MethodPatch, requestPath(id)+"/selected-estimate",
			object{"estimate_id": r.Estimates[0]["estimate_id"]}, 200)
	case 1:
		s.asks(s.steady, http.MethodPost, requestPath(id)+"/re-estimate", nil, 202)
	case 2:
		for _, d := range s.deliveries(s.steady, fmt.Sprintf("request_id=%d", id)) {
			s.asks(s.steady, http.MethodPost, deliveriesPath+"/"+d.ID+"/redeliver", nil, 202, 409)
		}
	}
}

func (s *sweep) deliveries(of *sweepSupplier, query string) []sentDelivery {
	a, ok := s.asks(of, http.MethodGet, deliveriesPath+"?"+query, nil, 200)
	if !ok {
		return nil
	}
	return apptest.Decode[struct{ Data []sentDelivery }](s.t, a).Data
}

// recovers has deliveries that were refused sent again: by the supplier, all or one, and in the console.
func (s *sweep) recovers(round int) {
	s.posted(s.refusing, nil)
	s.asks(s.refusing, http.MethodPost, receiverPath+"/resume", nil, 200)
	failed := s.deliveries(s.refusing, "status=failed")
	switch {
	case round%6 == 0:
		s.recoverAll()
	case len(failed) == 0:
	case round%6 == 1:
		s.asks(s.refusing, http.MethodPost, deliveriesPath+"/"+failed[0].ID+"/redeliver", nil, 202, 409, 429)
	case round%6 == 2:
		s.clicks("/deliveries/redeliver", one(failed[0].ID))
	}
}

// recoverAll has all that the refusing receiver refused sent again. One whose begin or end was cut off keeps others out
// for a while: settles asks again.
func (s *sweep) recoverAll() {
	a, ok := s.asks(s.refusing, http.MethodPost, deliveriesPath+"/redeliver",
		object{"status": "failed", "since": "2020-01-01T00:00:00Z"}, 202, 429)
	if ok && a.Status == http.StatusTooManyRequests && a.Header.Get("Retry-After") == "" {
		s.t.Errorf("a recovery is refused without Retry-After: %s", a.Body)
	}
}

// clicks does what the console's button does.
func (s *sweep) clicks(button string, values url.Values) {
	s.t.Helper()
	a := atConsole(s.t, s.hub.APIs[int(s.turn.Add(1))%len(s.hub.APIs)], "/console"+button, values,
		"Authorization", "Bearer "+operatorToken)
	if a.Status < 500 && !slices.Contains([]int{200, 404, 409}, a.Status) {
		s.t.Errorf("console %s: %d %s", button, a.Status, a.Body)
	}
}

func one(id string) url.Values { return url.Values{"id": {id}} }

// reopens has requests estimated again whose estimates the way to the own endpoint refused.
func (s *sweep) reopens(int) {
	id := s.posted(s.steady, object{"shop_code": refusedShop})
	if _, failed := s.comes(s.steady, id, "failed"); failed {
		s.clicks("/requests/reopen", one(fmt.Sprint(s.steady.ID, "/", id)))
	}
}

// sessions opens, refreshes and ends a session of the API.
func (s *sweep) sessions(int) {
	a, ok := s.tries(http.MethodPost, tokenPath, nil, []int{200}, "x-api-key", s.steady.APIKey)
	for range 3 {
		if !ok || a.Status != http.StatusOK {
			return
		}
		token := apptest.Decode[apptest.Tokens](s.t, a).RefreshToken
		for range 5 { // the answer to the first may be lost
			if a, ok = s.tries(http.MethodPost, refreshPath, object{"refreshToken": token}, []int{200, 401}); ok {
				break
			}
		}
	}
	if ok && a.Status == http.StatusOK {
		s.tries(http.MethodPost, revokePath,
			object{"refreshToken": apptest.Decode[apptest.Tokens](s.t, a).RefreshToken}, []int{204})
	}
}

// visits opens a session of the portal by a link and ends it.
func (s *sweep) visits(int) {
	a, ok := s.asks(s.steady, http.MethodPost, portalSessions, nil, 201)
	if !ok {
		return
	}
	link := apptest.Decode[portalLink](s.t, a).URL
	if cookie := sessionOf(visit(s.t, http.MethodGet, link, "")); cookie != "" {
		visit(s.t, http.MethodPost, s.hub.URL(0, "/portal/sign-out"), cookie, fromPage[:]...)
	}
}

// moves changes a receiver in each way there is, and has something for it each time.
func (s *sweep) moves(round int) {
	s.posted(s.moving, nil)
	switch round % 6 {
	case 0:
		s.asks(s.moving, http.MethodPost, receiverPath+"/pause", nil, 200, 409)
	case 1:
		s.asks(s.moving, http.MethodPost, receiverPath+"/resume", nil, 200, 409)
	case 2:
		s.asks(s.moving, http.MethodPost, receiverPath+"/rotate-secret", object{"overlap": "1s"}, 200)
	case 3:
		s.asks(s.moving, http.MethodDelete, receiverPath, nil, 200, 204, 404)
	case 4:
		s.settlesDown()
	case 5:
		s.asks(s.moving, http.MethodPost, receiverPath+"/test", nil, 200, 409, 429)
	}
}

// settlesDown sets the moving receiver to its address, and has it called.
func (s *sweep) settlesDown() {
	s.asks(s.moving, http.MethodPut, receiverPath, object{"url": s.moving.url}, 200)
	s.clicks("/receivers/resume", one(s.moving.ID))
}

// consoles is an operator who stops a supplier and its receiver, and lets both go on.
func (s *sweep) consoles(round int) {
	button := []string{"/receivers/pause", "/receivers/resume", "/suppliers/deactivate", "/suppliers/activate"}[round%4]
	s.clicks(button, one(s.switched.ID))
	id := nextID()
	if a, ok := s.asks(s.switched, http.MethodPost, requests, request(id, nil), 201, 401); ok && a.Status == 201 {
		s.switched.accepted(id)
	}
}

// restores ends what callers have stopped, so that everything can be delivered.
func (s *sweep) restores() {
	s.asks(s.refusing, http.MethodPost, receiverPath+"/resume", nil, 200)
	s.recoverAll()
	s.settlesDown()
	s.clicks("/suppliers/activate", one(s.switched.ID))
	s.clicks("/receivers/resume", one(s.switched.ID))
	for _, id := range s.texts(`SELECT supplier_id || '/' || id FROM material_requests WHERE status = 'failed'`) {
		s.clicks("/requests/reopen", one(id))
	}
}

// ails has something for the receiver that always fails.
func (s *sweep) ails(round int) {
	if round%20 == 0 {
		s.posted(s.ailing, nil)
	}
}

func (s *sweep) synchronises(round int) {
	s.asks(s.steady, http.MethodPost, "/api/products/sync",
		object{"action": "upsert", "product": product(object{"weight_kg": 1 + float64(round%500)})}, 200)
}

// scores asks for a scoreboard, and counts what may have cost a unit and what has.
func (s *sweep) scores(int) {
	s.asked.Add(1)
	a, ok := s.tries(http.MethodPost, scoreboardPath, nil, []int{200, 429}, "svc-pulse-key", pulseKey)
	if ok && a.Status == http.StatusOK {
		s.answered.Add(1)
	}
}

func (s *sweep) crawls(c *trackerClient, round int) {
	s.tries(http.MethodGet, fmt.Sprintf("%s?pageSize=%d", trackers, round%100+1), nil, []int{200},
		"svc-public-hub-key", c.APIKey)
}
