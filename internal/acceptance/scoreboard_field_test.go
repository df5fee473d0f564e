package acceptance

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sample"
)

func activeRule(t *testing.T, h *apptest.Hub, p *providers) {
	p.fixtures["648"] = []object{fixture(1, "2026-10-17T16:00", 1, nil)}
	p.fixtures["732"] = []object{fixture(3, "2026-10-17T16:00", 1, nil)}
	setSetting(t, h, "scoreboard.daily_quota", "100000")
	shows := func(league, ids string) func() bool {
		return func() bool { return board(t, h, "?referenceDate=2026-10-17&leagueId="+league).ids() == ids }
	}
	takesEffect(t, shows("732", "3"))
	wantShort(t, ask(t, h, 0, "?leagueId=abc"), 400, "INVALID_PARAMETERS")
	setSetting(t, h, "scoreboard.active", "true") // and no league: the default one
	takesEffect(t, shows("732", "1"))
	for _, league := range []string{"abc", "", "-1", "3.5"} {
		if !shows(league, "1")() {
			t.Errorf("leagueId=%s is looked at", league)
		}
	}
	wantShort(t, ask(t, h, 0, "?leagueId=1&leagueId=1"), 400, "INVALID_PARAMETERS")
	setSetting(t, h, "scoreboard.league_id", "732")
	takesEffect(t, shows("648", "3"))
}

func namesRule(t *testing.T, h *apptest.Hub, p *providers) {
	teams := map[string]string{"Italy": "Itália", "Trinidad and Tobago": "Trinidad e Tobago", "China PR": "China",
		"Republic of Ireland": "Irlanda", "Northern Ireland": "Irlanda do Norte", "Eswatini": "Essuatíni",
		"Brazil U20": "Brasil Sub-20", "Brazil U-17 W": "Brasil Sub-17 Feminino", "Brazil Women": "Brasil Feminino",
		"Brazil Olympic Team": "Brasil Olímpico"}
	thirds := []string{"3rd Place Final", "Third-place play-off", "Play-off for third place", "Bronze final",
		"Third place match", "Match for 3rd place"}
	sides := func(name string) (home, away sample.Side) {
		return sample.Side{ID: 1, Name: name, Kind: "national"}, sample.Side{ID: 2, Name: "Flamengo U20", Code: "BRA"}
	}
	p.set(func() {
		id := 0
		add := func(name, stage string) {
			id++
			home, away := sides(name)
			f := sample.Fixture(id, at("2026-06-14T16:00"), 1, home, away)
			p.fixtures["1082"] = append(p.fixtures["1082"], with(f, object{"stage": object{"name": stage, "type_id": 224}}))
			p.matches = append(p.matches, with(sample.Match(id, at("2026-06-14T16:00"), "scheduled", home, home),
				object{"stage": object{"name": stage}}))
		}
		for name := range teams {
			add(name, "Friendly")
		}
		for _, stage := range thirds {
			add("Italy", stage)
		}
	})
	check := func(source string) {
		t.Helper()
		b, third := board(t, h, "?referenceDate=2026-06-14&leagueId=1082"), 0
		if b.Response.Metadata["source"] != source || len(b.Response.Result.Scoreboard.Games) != len(teams)+len(thirds) {
			t.Fatalf("%s: %v with %s", source, b.Response.Metadata, b.ids())
		}
		for _, g := range b.Response.Result.Scoreboard.Games {
			home, away := g["home_team"].(object), g["away_team"].(object)
			if home["name_pt"] != teams[home["name"].(string)] ||
				source == "sportmonks" && away["name_pt"] != "Flamengo U20" {
				t.Errorf("%s: %v against %v", source, home, away)
			}
			if g["stage"] == "THIRD_PLACE_FINAL" && g["stage_name_pt"] == "Disputa de 3º Lugar" {
				third++
			}
		}
		if third != len(thirds) {
			t.Errorf("%s: %d of %d third places", source, third, len(thirds))
		}
	}
	check("sportmonks")
	p.set(func() { p.primaryStatus, p.retryAfter = 429, "3600" })
	check("balldontlie")
}

func bentRule(t *testing.T, h *apptest.Hub, p *providers) {
	none := []object{}
	p.fixtures["648"] = []object{
		fixture(1, "2026-10-17T16:00", 1, object{"league": none, "season": object{"name": 2026}, "stage": none,
			"round": object{"name": 31}, "scores": object{}, "periods": nil, "name": 5, "placeholder": 0, "group": none}),
		fixture(2, "2026-10-17T17:00", 22, object{"periods": []object{{"type_id": 2, "ticking": true, "minutes": 61.5}}}),
		fixture(3, "2026-10-17T18:00", 1, object{"starting_at_timestamp": nil}),
		fixture(777001, "2026-10-17T19:00", 10, object{"starting_at_timestamp": nil, "starting_at": nil}),
	}
	p.fixtures["648"][0]["participants"].([]object)[0]["meta"] = none
	for range 3 {
		if got := board(t, h, "?referenceDate=2026-10-17").ids(); got != "2 1 3" {
			t.Fatalf("shown are %s", got)
		}
	}
	games := board(t, h, "?referenceDate=2026-10-17").Response.Result.Scoreboard.Games
	if games[0]["minute"] != 61.0 || games[1]["away_team"].(object)["name"] != "Time B" {
		t.Errorf("got %v", games)
	}
	p.set(func() {
		p.primaryStatus = 200
		p.primaryBody = `{"message":"You have no access to it via your plan 4711.","pagination":[],"meta":[]}`
	})
	for range 3 {
		if got := board(t, h, "?referenceDate=2026-10-17").ids(); got != "" {
			t.Fatalf("shown are %s", got)
		}
	}
	logged(t, h.APIs[0], "777001")
	logged(t, h.APIs[0], "your plan 4711.")
	log := h.APIs[0].Log()
	if strings.Count(log, "777001") != 1 || strings.Count(log, "your plan 4711.") != 1 {
		t.Errorf("a match that is left out, or a message, is not logged once:\n%s", log)
	}
}

func maintenanceRule(t *testing.T, h *apptest.Hub, p *providers) {
	p.fixtures["648"] = []object{fixture(1, "2026-10-17T16:00", 1, nil)}
	p.set(func() { p.primaryStatus, p.primaryBody, p.retryAfter = 503, `{"message":"Maintenance."}`, "4" })
	for range 3 {
		wantShort(t, ask(t, h, 0, "?referenceDate=2026-10-17"), 500, "SCOREBOARD_ERROR")
	}
	if n := p.primaryCalls.Load(); n != 1 || p.fallbackCalls.Load() != 0 {
		t.Errorf("the providers were asked %d and %d times", n, p.fallbackCalls.Load())
	}
	logged(t, h.APIs[0], "status 503")
	if log := h.APIs[0].Log(); strings.Contains(log, "deadline") {
		t.Errorf("the log says that the provider did not answer in time:\n%s", log)
	}
	p.set(func() { p.primaryStatus = 0 })
	takesEffect(t, func() bool { return ask(t, h, 0, "?referenceDate=2026-10-17").Status == 200 })
}

func headersRule(t *testing.T, h *apptest.Hub, p *providers) {
	setSetting(t, h, "scoreboard.daily_quota", "2")
	takesEffect(t, func() bool { return limitOf(t, h, 0) == "2" })
	want(t, ask(t, h, 0, ""), 200)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodOptions} {
		a := h.Do(t, method, scoreboardPath, nil)
		if a.Status != 405 || a.Header.Get("Allow") != "POST" || a.Header.Get("X-RateLimit-Limit") != "2" ||
			a.Header.Get("X-RateLimit-Remaining") != "1" || a.Header.Get("X-RateLimit-Reset") == "" {
			t.Errorf("%s: %d %v", method, a.Status, a.Header)
		}
	}
	want(t, ask(t, h, 0, ""), 200)
	for range 5 {
		a := ask(t, h, 0, "")
		answered := time.Now()
		wantShort(t, a, 429, "RATE_LIMIT_EXCEEDED")
		after, _ := strconv.ParseInt(a.Header.Get("Retry-After"), 10, 64)
		reset, _ := strconv.ParseInt(a.Header.Get("X-RateLimit-Reset"), 10, 64)
		if back := answered.Add(time.Duration(after) * time.Second); back.Before(time.Unix(reset, 0)) {
			t.Errorf("Retry-After ends %s before the reset", time.Unix(reset, 0).Sub(back))
		}
	}
	a := ask(t, h, 0, "?referenceDate=2026-11-21T20:00:00+02:00")
	wantShort(t, a, 400, "INVALID_PARAMETERS")
	if text := fmt.Sprint(apptest.Decode[scoreboardAnswer](t, a).Messages[0]["Message"]); !strings.Contains(text, "%2B") {
		t.Errorf("the reason is %s", text)
	}
	if p.primaryCalls.Load() != 2 {
		t.Errorf("the provider was asked %d times", p.primaryCalls.Load())
	}
}
