package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sample"
)

const (
	scoreboardPath = "/pulse/scoreboard"
	pulseKey       = "pulse-key-1"
	sportToken     = "sportmonks-token"
	fallbackKey    = "fallback-key"
)

// providers are two HTTP servers that answer as the real ones do.
type providers struct {
	mu                          sync.Mutex
	fixtures                    map[string][]object // by league
	matches                     []object
	primaryStatus               int
	primaryBody                 string
	retryAfter                  string
	fallbackStatus              int
	primaryCalls, fallbackCalls atomic.Int64
	primary, fallback           *httptest.Server
}

func newProviders(t *testing.T) *providers {
	t.Helper()
	p := &providers{fixtures: map[string][]object{}}
	p.primary = httptest.NewServer(http.HandlerFunc(p.servePrimary))
	p.fallback = httptest.NewServer(http.HandlerFunc(p.serveFallback))
	t.Cleanup(p.primary.Close)
	t.Cleanup(p.fallback.Close)
	return p
}

func (p *providers) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *providers) servePrimary(w http.ResponseWriter, r *http.Request) {
	p.primaryCalls.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Header.Get("Authorization") != sportToken || strings.Contains(r.URL.String(), sportToken) {
		http.Error(w, `{"message":"Unauthenticated."}`, http.StatusUnauthorized)
		return
	}
	if p.primaryStatus != 0 {
		if p.retryAfter != "" {
			w.Header().Set("Retry-After", p.retryAfter)
		}
		w.WriteHeader(p.primaryStatus)
		fmt.Fprint(w, p.primaryBody)
		return
	}
	all := p.fixtures[strings.TrimPrefix(r.URL.Query().Get("filters"), "fixtureLeagues:")]
	if len(all) == 0 {
		fmt.Fprint(w, `{"message":"No result(s) found matching your request.","timezone":"UTC"}`)
		return
	}
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	const size = 2 // so that several pages are asked for
	from, to := min((page-1)*size, len(all)), min(page*size, len(all))
	_ = json.NewEncoder(w).Encode(object{"data": all[from:to], "pagination": object{"has_more": to < len(all)},
		"timezone": "UTC"})
}

func (p *providers) serveFallback(w http.ResponseWriter, r *http.Request) {
	p.fallbackCalls.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Header.Get("Authorization") != fallbackKey {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	if p.fallbackStatus != 0 {
		w.WriteHeader(p.fallbackStatus)
		return
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	to := min(from+2, len(p.matches))
	meta := object{"next_cursor": nil}
	if to < len(p.matches) {
		meta["next_cursor"] = to
	}
	_ = json.NewEncoder(w).Encode(object{"data": p.matches[from:to], "meta": meta})
}

// at is a moment of São Paulo.
func at(text string) time.Time {
	moment, err := time.Parse("2006-01-02T15:04:05-07:00", text+":00-03:00")
	if err != nil {
		panic(err)
	}
	return moment
}

// fixture is a match as the first provider returns it.
func fixture(id int, kickOff string, state int, changes object) object {
	home := sample.Side{ID: 1, Name: "Time A", Code: "TMA", Logo: "https://cdn.example/a.png"}
	away := sample.Side{ID: 2, Name: "Time B ", Logo: "https://cdn.example/b.png"}
	return with(sample.Fixture(id, at(kickOff), state, home, away), changes)
}

func goals(description, side string, n int) object { return sample.Goals(description, side, n) }

type scoreboardAnswer struct {
	ShortMessage string
	Response     *struct {
		Competition map[string]string
		Result      struct {
			Scoreboard struct {
				UpdateRequired bool `json:"update_required"`
				Games          []object
			}
		}
		Metadata object
	}
	Messages []object
}

func (a scoreboardAnswer) ids() string {
	var ids []string
	for _, g := range a.Response.Result.Scoreboard.Games {
		ids = append(ids, fmt.Sprint(g["match_id"]))
	}
	return strings.Join(ids, " ")
}

func ask(t *testing.T, h *apptest.Hub, i int, query string) apptest.Answer {
	t.Helper()
	return h.DoAt(t, i, http.MethodPost, scoreboardPath+query, nil, "svc-pulse-key", pulseKey)
}

func board(t *testing.T, h *apptest.Hub, query string) scoreboardAnswer {
	t.Helper()
	a := ask(t, h, 0, query)
	want(t, a, 200)
	return apptest.Decode[scoreboardAnswer](t, a)
}

func wantShort(t *testing.T, a apptest.Answer, status int, short string) {
	t.Helper()
	want(t, a, status)
	if got := apptest.Decode[scoreboardAnswer](t, a); got.ShortMessage != short || got.Response != nil ||
		len(got.Messages) != 1 || got.Messages[0]["Code"] != strconv.Itoa(status) {
		t.Fatalf("got %s", a.Body)
	}
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		if a.Header.Get(name) == "" {
			t.Fatalf("the %d has no %s", status, name)
		}
	}
}

// TestScoreboard has a service of its own for each rule: quotas, settings and the first provider's state are shared by
// all callers.
func TestScoreboard(t *testing.T) {
	t.Parallel()
	rules := map[string]func(*testing.T, *apptest.Hub, *providers){
		"games of the day and the next, ordered, with every field":  gamesRule,
		"states, minutes and stages":                                statesRule,
		"parameters and keys":                                       parametersRule,
		"the quota is counted over all apis and ends exactly":       quotaRule,
		"429 of the first provider, and only that, asks the second": fallbackRule,
		"runtime settings count without a restart":                  settingsRule,
		"equal questions cause one call, failures are not kept":     sharedRule,
		"leagueId is not looked at while active is on":              activeRule,
		"teams and stages are named as Brazil says it":              namesRule,
		"what a provider leaves out costs nothing but itself":       bentRule,
		"a provider in maintenance makes no caller wait":            maintenanceRule,
		"Retry-After and the headers on every answer":               headersRule,
	}
	for _, stack := range apptest.Stacks {
		for name, test := range rules {
			t.Run(string(stack)+"/"+name, func(t *testing.T) {
				t.Parallel()
				p := newProviders(t)
				h := apptest.Start(t, stack, apptest.Options{Workers: 1, Env: map[string]string{
					"PULSE_API_KEY": pulseKey + ", ,pulse-key-2", "SPORTMONKS_API_TOKEN": sportToken, "FALLBACK_API_KEY": fallbackKey,
					"SPORTMONKS_BASE_URL": p.primary.URL + "/v3/football", "BALLDONTLIE_BASE_URL": p.fallback.URL +
						"/v1", "SCOREBOARD_CACHE_TTL": "0",
				}})
				test(t, h, p)
				for _, api := range h.APIs {
					if log := api.Log(); strings.Contains(log, sportToken) || strings.Contains(log, fallbackKey) ||
						strings.Contains(log, pulseKey) {
						t.Error("a key is in the log")
					}
				}
			})
		}
	}
	t.Run("without PULSE_API_KEY the answer is 503 before anything else", func(t *testing.T) {
		t.Parallel()
		h := apptest.Start(t, apptest.Embedded, apptest.Options{Env: map[string]string{"PULSE_API_KEY": " "}})
		wantShort(t, h.Do(t, http.MethodPost, scoreboardPath+"?leagueId=x", nil), 503, "SERVICE_UNAVAILABLE")
	})
}

func gamesRule(t *testing.T, h *apptest.Hub, p *providers) {
	p.fixtures["648"] = []object{
		fixture(10, "2026-10-16T23:59", 1, nil), // the day before
		fixture(11, "2026-10-17T21:30", 1, nil),
		fixture(12, "2026-10-18T23:59", 1, nil),
		fixture(13, "2026-10-19T00:00", 1, nil), // the day after the next
		fixture(14, "2026-10-17T16:00", 5, object{"scores": []object{goals("1ST_HALF", "home", 1),
			goals("2ND_HALF", "home", 2), goals("CURRENT", "home", 2), goals("CURRENT", "away", 1)}}),
		fixture(15, "2026-10-17T18:30", 22, object{"periods": []object{{"type_id": 2, "ticking": true, "minutes": 67,
			"sort_order": 2}}}),
		fixture(9, "2026-10-17T21:30", 1, nil),
		fixture(16, "2026-10-17T20:00", 20, nil), // deleted
		fixture(11, "2026-10-17T21:30", 1, nil),  // once more
		{"id": "nonsense"},                       // cannot be read
	}
	b := board(t, h, "?referenceDate=2026-10-17T23:30:00-03:00")
	if b.ids() != "15 9 11 12 14" {
		t.Fatalf("the games are %s", b.ids())
	}
	if !b.Response.Result.Scoreboard.UpdateRequired || b.Response.Metadata["source"] != "sportmonks" {
		t.Fatalf("got %+v", b.Response)
	}
	if c := b.Response.Competition; c["name"] != "Campeonato Brasileiro Série A" || c["series"] != "2026" ||
		c["stage"] != "REGULAR_SEASON" || c["stage_name_pt"] != "Temporada Regular" || c["round"] != "29" ||
		c["logo"] != "https://cdn.example/648.png" {
		t.Fatalf("the competition is %v", c)
	}
	last := b.Response.Result.Scoreboard.Games[4]
	for name, value := range (object{
		"scheduled_at": "2026-10-17T16:00:00-03:00", "scheduled_date": "2026-10-17", "scheduled_time": "16:00",
		"home_score": 2.0, "away_score": 1.0,
		"status": "FINISHED", "minute": 90.0, "progress_percentage": 100.0, "stage": "REGULAR_SEASON",
	}) {
		if last[name] != value {
			t.Errorf("%s is %v, want %v", name, last[name], value)
		}
	}
	if home, away := last["home_team"].(object), last["away_team"].(object); home["name"] != "Time A" ||
		home["id"] != 1.0 || away["name"] != "Time B" || away["acronym"] != "" ||
		away["logo"] != "https://cdn.example/b.png" {
		t.Errorf("the teams are %v and %v", home, away)
	}
	if g := board(t, h, "?referenceDate=2026-10-17&leagueId=651"); g.ids() != "" ||
		g.Response.Competition["name"] != "Campeonato Brasileiro Série B" || g.Response.Competition["stage"] != "UNKNOWN" {
		t.Errorf("an empty day is %+v", g.Response)
	}
	if got := board(t, h, "?referenceDate=2026-10-18T01:00:00Z").ids(); got != b.ids() {
		t.Errorf("a date-time of another zone gives %s", got)
	}
}

func statesRule(t *testing.T, h *apptest.Hub, p *providers) {
	running := func(kind, minutes int) object {
		return object{"periods": []object{{"type_id": kind, "ticking": true, "minutes": minutes, "sort_order": kind}}}
	}
	stage := func(name string, kind int) object { return object{"stage": object{"name": name, "type_id": kind}} }
	cases := []struct {
		state            int
		changes          object
		status           string
		minute, progress float64
		stage            string
	}{
		{1, stage("16th Finals", 224), "SCHEDULED", 0, 0, "ROUND_OF_32"},
		{13, stage("8th Finals", 224), "SCHEDULED", 0, 0, "ROUND_OF_16"},
		{16, stage("Quarter-finals", 224), "SCHEDULED", 0, 0, "QUARTER_FINALS"},
		{2, running(1, 48), "IN_PROGRESS", 45, 50, "REGULAR_SEASON"},
		{22, running(2, 94), "IN_PROGRESS", 90, 99, "REGULAR_SEASON"},
		{3, stage("Semi-finals", 224), "IN_PROGRESS", 45, 50, "SEMI_FINALS"},
		{4, stage("3rd Place Final", 224), "IN_PROGRESS", 90, 99, "THIRD_PLACE_FINAL"},
		{6, running(3, 7), "IN_PROGRESS", 97, 99, "REGULAR_SEASON"},
		{9, stage("Final", 224), "IN_PROGRESS", 120, 99, "FINAL"},
		{21, stage("Relegation Play-offs", 224), "IN_PROGRESS", 105, 99, "PLAY_OFFS"},
		{23, nil, "IN_PROGRESS", 106, 99, "REGULAR_SEASON"},
		{25, stage("Qualifying Round", 225), "IN_PROGRESS", 120, 99, "QUALIFICATION"},
		{5, stage("Preliminary Round", 224), "FINISHED", 90, 100, "PRELIMINARY_ROUND"},
		{7, stage("Group Stage", 223), "FINISHED", 120, 100, "GROUP_STAGE"},
		{8, stage("Round", 225), "FINISHED", 120, 100, "QUALIFICATION"},
		{14, stage("128th Finals", 224), "FINISHED", 90, 100, "UNKNOWN"},
		{17, object{"stage": nil}, "FINISHED", 90, 100, "UNKNOWN"},
		{10, with(stage("Round", 223), object{"group": object{"name": "Group A"}}), "POSTPONED", 0, 0, "GROUP_STAGE"},
		{11, running(1, 30), "SUSPENDED", 30, 33, "REGULAR_SEASON"}, {18, nil, "SUSPENDED", 0, 0, "REGULAR_SEASON"},
		{12, nil, "CANCELLED", 0, 0, "REGULAR_SEASON"}, {15, running(2, 70), "ABANDONED", 70, 77, "REGULAR_SEASON"},
		{19, nil, "UNKNOWN", 0, 0, "REGULAR_SEASON"}, {26, nil, "UNKNOWN", 0, 0, "REGULAR_SEASON"},
		{99, nil, "UNKNOWN", 0, 0, "REGULAR_SEASON"},
	}
	for i, c := range cases {
		p.fixtures["648"] = append(p.fixtures["648"], fixture(100+i, "2026-10-17T16:00", c.state, c.changes))
	}
	p.fixtures["648"] = append(p.fixtures["648"], fixture(300, "2026-10-17T16:00", 8, object{
		"participants": []object{}, "name": "Winner Match 74 vs Winner Match 77", "round": nil, "season": nil, "league": nil,
		"scores": []object{goals("CURRENT", "home", 3), goals("CURRENT", "away", 3), goals("PENALTY_SHOOTOUT", "home", 4),
			goals("PENALTY_SHOOTOUT", "away", 2)},
	}))
	games := map[string]object{}
	for _, g := range board(t, h, "?referenceDate=2026-10-17").Response.Result.Scoreboard.Games {
		games[fmt.Sprint(g["match_id"])] = g
	}
	for i, c := range cases {
		g := games[strconv.Itoa(100+i)]
		if g["status"] != c.status || g["minute"] != c.minute || g["progress_percentage"] != c.progress ||
			g["stage"] != c.stage {
			t.Errorf("state %d: %v %v %v %v, want %s %v %v %s", c.state, g["status"], g["minute"], g["progress_percentage"],
				g["stage"], c.status, c.minute, c.progress, c.stage)
		}
	}
	undecided := games["300"]
	if home := undecided["home_team"].(object); home["name"] != "Winner Match 74" || home["id"] != 0.0 ||
		undecided["home_score"] != 3.0 || undecided["away_score"] != 3.0 {
		t.Errorf("the undecided match is %v", undecided)
	}
}

func parametersRule(t *testing.T, h *apptest.Hub, p *providers) {
	for _, query := range []string{"?leagueId=0", "?leagueId=-1", "?leagueId=x", "?leagueId=", "?leagueId=1&leagueId=1",
		"?referenceDate=2026-02-30", "?referenceDate=", "?referenceDate=yesterday", "?partner=a&partner=b", "?x=%zz"} {
		wantShort(t, ask(t, h, 0, query), 400, "INVALID_PARAMETERS")
	}
	a := ask(t, h, 0, "?leagueId=x&referenceDate=y")
	if text := string(a.Body); !strings.Contains(text, "leagueId") || !strings.Contains(text, "referenceDate") {
		t.Errorf("not all violations are named: %s", text)
	}
	wantShort(t, h.Do(t, http.MethodPost, scoreboardPath+"?leagueId=x", nil), 401, "UNAUTHORIZED")
	wantShort(t, h.Do(t, http.MethodPost, scoreboardPath, nil, "svc-pulse-key", ""), 401, "UNAUTHORIZED")
	wantShort(t, h.Do(t, http.MethodPost, scoreboardPath, nil, "svc-pulse-key", pulseKey+", ,pulse-key-2"), 401,
		"UNAUTHORIZED")
	a = h.Do(t, http.MethodPost, scoreboardPath, strings.Repeat(" ", 1<<20+1), "svc-pulse-key", pulseKey)
	wantShort(t, a, 413, "INVALID_PARAMETERS")
	if n := p.primaryCalls.Load(); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
	if left := a.Header.Get("X-RateLimit-Remaining"); left != "80" {
		t.Errorf("refused requests were counted: %s left", left)
	}
	b := h.Do(t, http.MethodPost, scoreboardPath, nil, "svc-pulse-key", "pulse-key-2")
	want(t, b, 200)
	if b.Header.Get("X-RateLimit-Limit") != "80" || b.Header.Get("X-RateLimit-Remaining") != "79" {
		t.Errorf("the headers are %v", b.Header)
	}
	reset, _ := strconv.ParseInt(b.Header.Get("X-RateLimit-Reset"), 10, 64)
	if midnight := time.Unix(reset, 0).UTC(); midnight.Hour() != 3 || midnight.Minute() != 0 ||
		time.Until(midnight) > 24*time.Hour || time.Until(midnight) < 0 {
		t.Errorf("the reset is at %s", midnight)
	}
}

func quotaRule(t *testing.T, h *apptest.Hub, p *providers) {
	setSetting(t, h, "scoreboard.daily_quota", "30")
	takesEffect(t, func() bool { return limitOf(t, h, 0) == "30" && limitOf(t, h, 1) == "30" })
	var granted, refused atomic.Int64
	together(100, func(i int) {
		switch a := ask(t, h, i, "?referenceDate=2026-10-17"); a.Status {
		case 200:
			granted.Add(1)
		case 429:
			refused.Add(1)
		default:
			t.Errorf("status %d", a.Status)
		}
	})
	if granted.Load() != 30 || refused.Load() != 70 {
		t.Fatalf("%d were granted and %d refused", granted.Load(), refused.Load())
	}
	calls := p.primaryCalls.Load()
	a := ask(t, h, 0, "?partner=other")
	wantShort(t, a, 429, "RATE_LIMIT_EXCEEDED")
	if text := fmt.Sprint(apptest.Decode[scoreboardAnswer](t, a).Messages[0]["Message"]); !strings.Contains(text,
		"partner_b") || !strings.Contains(text, "T00:00:00-03:00") {
		t.Errorf("the message is %s", text)
	}
	if after, _ := strconv.Atoi(a.Header.Get("Retry-After")); after < 1 || after > 24*60*60 ||
		a.Header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("the headers are %v", a.Header)
	}
	if p.primaryCalls.Load() != calls {
		t.Error("a refused request reached the provider")
	}
	want(t, ask(t, h, 0, "?partner=loop"), 200) // the other requester
	setSetting(t, h, "scoreboard.daily_quota", "31")
	takesEffect(t, func() bool { return limitOf(t, h, 0) == "31" })
	want(t, ask(t, h, 0, ""), 200)
	wantShort(t, ask(t, h, 0, ""), 429, "RATE_LIMIT_EXCEEDED")
	setSetting(t, h, "scoreboard.daily_quota", "0")
	takesEffect(t, func() bool { return limitOf(t, h, 0) == "0" })
	wantShort(t, ask(t, h, 0, "?partner=loop"), 429, "RATE_LIMIT_EXCEEDED")
}

func setSetting(t *testing.T, h *apptest.Hub, key, value string) {
	t.Helper()
	apptest.MustCommand[object](t, h, "settings", "set", key, value)
}

// limitOf spends nothing: the parameter is bad.
func limitOf(t *testing.T, h *apptest.Hub, i int) string {
	t.Helper()
	return ask(t, h, i, "?leagueId=x").Header.Get("X-RateLimit-Limit")
}

// takesEffect waits for a condition that must hold within the 5 seconds in which a setting takes effect.
func takesEffect(t *testing.T, condition func() bool) {
	t.Helper()
	sinceSet := apptest.Stopwatch(t)
	wait.Until(t, "it takes effect", condition)
	if took := sinceSet(); took > 5*time.Second {
		t.Errorf("it took effect after %s", took)
	}
}

func fallbackRule(t *testing.T, h *apptest.Hub, p *providers) {
	for status, body := range map[int]string{401: `{}`, 403: `{}`, 404: `x`, 500: `x`, 302: ``, 200: `not JSON`} {
		p.set(func() { p.primaryStatus, p.primaryBody = status, body })
		wantShort(t, ask(t, h, 0, "?referenceDate=2026-06-14"), 500, "SCOREBOARD_ERROR")
	}
	for _, body := range []string{`{"data":5}`, `[]`, strings.Repeat(" ", 9<<20)} {
		p.set(func() { p.primaryStatus, p.primaryBody = 200, body })
		wantShort(t, ask(t, h, 0, "?referenceDate=2026-06-14"), 500, "SCOREBOARD_ERROR")
	}
	if p.fallbackCalls.Load() != 0 {
		t.Fatal("something else than a 429 asked the fallback")
	}
	match := func(id int, kickOff, status string, changes object) object {
		home, away := sample.Side{ID: 21, Name: "Netherlands", Code: "NED"}, sample.Side{ID: 22, Name: "Japan", Code: "JPN"}
		return with(sample.Match(id, at(kickOff), status, home, away), changes)
	}
	p.set(func() {
		p.primaryStatus, p.primaryBody, p.retryAfter = 429, `{"retry_after":1}`, "1"
		p.matches = []object{
			match(11, "2026-06-14T18:00", "in_progress", nil),
			match(12, "2026-06-14T13:00", "completed", object{"home_score_penalties": 4}),
			match(13, "2026-06-15T20:00", "scheduled", object{
				"home_team": nil, "away_team": nil, "home_score": nil, "away_score": nil,
				"home_team_source": object{"description": "Runner-up of Group A"}, "stage": object{"name": "Round of 32"},
				"round_name": "Round of 32"}),
			match(14, "2026-06-15T10:00", "postponed", nil), match(15, "2026-06-15T11:00", "canceled", nil),
			match(16, "2026-06-15T12:00", "halted", nil), match(17, "2026-06-17T12:00", "scheduled", nil),
		}
	})
	b := board(t, h, "?referenceDate=2026-06-14")
	if b.ids() != "11 13 12 14 15 16" || b.Response.Metadata["source"] != "balldontlie" {
		t.Fatalf("the fallback gives %s of %v", b.ids(), b.Response.Metadata)
	}
	if c := b.Response.Competition; c["name"] != "Copa do Mundo" || c["series"] != "2026" || c["logo"] != "" ||
		c["stage"] != "GROUP_STAGE" {
		t.Errorf("the competition is %v", c)
	}
	games := b.Response.Result.Scoreboard.Games
	if home := games[0]["home_team"].(object); home["name_pt"] != "Holanda" || home["logo"] != "" ||
		games[0]["minute"] != 0.0 || games[0]["progress_percentage"] != 50.0 {
		t.Errorf("the game is %v", games[0])
	}
	if home := games[1]["home_team"].(object); home["name"] != "Runner-up of Group A" ||
		games[1]["away_team"].(object)["name"] != "A definir" || games[1]["stage"] != "ROUND_OF_32" {
		t.Errorf("the undecided game is %v", games[1])
	}
	p.set(func() { p.retryAfter = "3600" })
	takesEffect(t, func() bool { // the second of its first refusal goes by
		before := p.primaryCalls.Load()
		board(t, h, "?referenceDate=2026-06-14")
		return p.primaryCalls.Load() > before
	})
	calls := p.primaryCalls.Load()
	for range 3 {
		board(t, h, "?referenceDate=2026-06-14")
	}
	if p.primaryCalls.Load() != calls {
		t.Error("the first provider was asked before its rate limit says so")
	}
	wantShort(t, ask(t, h, 0, "?referenceDate=2025-06-14"), 500, "SCOREBOARD_ERROR")
	p.set(func() { p.fallbackStatus = 429 })
	wantShort(t, ask(t, h, 0, "?referenceDate=2026-06-14"), 500, "SCOREBOARD_ERROR")
}

func settingsRule(t *testing.T, h *apptest.Hub, p *providers) {
	p.fixtures["648"] = []object{fixture(1, "2026-10-17T16:00", 1, nil), fixture(2, "2026-10-17T17:00", 1, nil)}
	p.fixtures["732"] = []object{fixture(3, "2026-10-17T16:00", 1, nil), fixture(4, "2026-10-17T17:00", 1, nil),
		fixture(5, "2026-10-17T18:00", 1, nil)}
	shows := func(ids string) func() bool {
		return func() bool { return board(t, h, "?referenceDate=2026-10-17").ids() == ids }
	}
	setSetting(t, h, "scoreboard.daily_quota", "100000")
	setSetting(t, h, "scoreboard.league_id", "732")
	setSetting(t, h, "scoreboard.match_ids", "5, 3")
	takesEffect(t, shows("1 2")) // not active yet
	setSetting(t, h, "scoreboard.active", "true")
	takesEffect(t, shows("3 5"))
	apptest.MustCommand[object](t, h, "settings", "unset", "scoreboard.match_ids")
	takesEffect(t, shows("3 4 5"))
	apptest.MustCommand[object](t, h, "settings", "unset", "scoreboard.active")
	takesEffect(t, shows("1 2"))
	for key, value := range map[string]string{"scoreboard.daily_quota": "-1", "scoreboard.active": "maybe",
		"scoreboard.league_id": "0", "scoreboard.match_ids": "1,,2", "unknown": "1"} {
		if _, stderr, code := h.Command(t, "settings", "set", key, value); code != 1 || !strings.Contains(stderr, key) {
			t.Errorf("%s=%s: exit code %d, %s", key, value, code, stderr)
		}
	}
	if _, _, code := h.Command(t, "settings", "unset", "unknown"); code != 1 {
		t.Errorf("an unknown key: exit code %d", code)
	}
	list := apptest.MustCommand[[]object](t, h, "settings", "list")
	if len(list) != 4 || list[0]["value"] != "100000" {
		t.Errorf("the settings are %v", list)
	}
}

func sharedRule(t *testing.T, h *apptest.Hub, p *providers) {
	h.APIs[0].Stop()
	h.Env["SCOREBOARD_CACHE_TTL"] = "1h"
	h.APIs = append(h.APIs[:0], h.Run("api", nil))
	p.fixtures["648"] = []object{fixture(1, "2026-10-17T16:00", 1, nil)}
	p.set(func() { p.primaryStatus = 500 })
	wantShort(t, ask(t, h, 0, "?referenceDate=2026-10-17"), 500, "SCOREBOARD_ERROR")
	p.set(func() { p.primaryStatus = 0 })
	before := p.primaryCalls.Load()
	together(20, func(int) { board(t, h, "?referenceDate=2026-10-17") })
	if n := p.primaryCalls.Load() - before; n != 1 {
		t.Errorf("20 equal questions caused %d calls", n)
	}
	if left := ask(t, h, 0, "?leagueId=x").Header.Get("X-RateLimit-Remaining"); left != "59" {
		t.Errorf("%s are left, want 59: remembered answers and failures count too", left)
	}
}
