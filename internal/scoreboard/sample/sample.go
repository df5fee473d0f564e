// Package sample answers as both football providers do, with invented matches of today and tomorrow, so that the
// scoreboard can be tried without an account.
package sample

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
)

const (
	worldCup  = 732
	gap       = 15 * time.Minute // between the halves
	half      = 45 * time.Minute
	fullMatch = 2*half + gap

	stateNotStarted = 1
	stateFirstHalf  = 2
	stateHalfTime   = 3
	stateFinished   = 5
	stateSecondHalf = 22
)

// Side is a team as the providers report it.
type Side struct {
	ID   int
	Name string
	Code string // empty: it has none
	Logo string
	// Kind is SportMonks' type: domestic, which a club is, when it is empty; or national.
	Kind string
}

// Fixture returns a match in SportMonks' shape.
func Fixture(id int, kickOff time.Time, state int, home, away Side) map[string]any {
	return map[string]any{
		"id": id, "state_id": state, "name": home.Name + " vs " + away.Name,
		"starting_at": kickOff.UTC().Format("2006-01-02 15:04:05"), "starting_at_timestamp": kickOff.Unix(),
		"participants": []map[string]any{away.participant("away"), home.participant("home")},
		"scores":       []map[string]any{}, "periods": []map[string]any{}, "group": nil,
		"round": map[string]any{"name": "29"}, "season": map[string]any{"name": strconv.Itoa(kickOff.Year())},
		"league": map[string]any{"name": "Serie A", "image_path": "https://cdn.example/648.png", "sub_type": "domestic"},
		"stage":  map[string]any{"name": "Regular Season", "type_id": 223},
	}
}

func (s Side) participant(location string) map[string]any {
	var code any
	if s.Code != "" {
		code = s.Code
	}
	return map[string]any{
		"id": s.ID, "name": s.Name, "short_code": code, "image_path": s.Logo,
		"type": cmp.Or(s.Kind, "domestic"),
		"meta": map[string]any{"location": location}, "country": nil,
	}
}

// Match returns a match in BALLDONTLIE's shape.
func Match(id int, kickOff time.Time, status string, home, away Side) map[string]any {
	return map[string]any{
		"id": id, "datetime": kickOff.UTC().Format(time.RFC3339), "status": status,
		"stage": map[string]any{"name": "Group Stage"}, "group": map[string]any{"name": "F"},
		"home_team": home.team(), "away_team": away.team(), "home_score": 1, "away_score": 1, "round_number": 1,
		"round_name": nil,
	}
}

func (s Side) team() map[string]any {
	return map[string]any{"id": s.ID, "name": s.Name, "abbreviation": s.Code, "country_code": s.Code}
}

// Goals returns a score in SportMonks' shape.
func Goals(description, side string, n int) map[string]any {
	return map[string]any{"description": description, "score": map[string]any{"goals": n, "participant": side}}
}

// Handler answers below any base address: SportMonks' fixtures between two days, BALLDONTLIE's matches.
func Handler(now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.Split(strings.TrimSuffix(r.URL.Path, "/"), "/")
		switch n := len(path); {
		case r.Header.Get("Authorization") == "":
			answer(w, http.StatusUnauthorized, map[string]any{"message": "Unauthenticated."})
		case n > 3 && path[n-3] == "between":
			league, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Query().Get("filters"), "fixtureLeagues:"))
			answer(w, http.StatusOK, map[string]any{"data": fixtures(league, path[n-2], path[n-1], now()),
				"pagination": map[string]any{"has_more": false}, "timezone": "UTC"})
		case n > 0 && path[n-1] == "matches":
			answer(w, http.StatusOK, map[string]any{"data": matches(now()), "meta": map[string]any{"next_cursor": nil}})
		default:
			answer(w, http.StatusNotFound, map[string]any{"message": "There is no such resource."})
		}
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a caller that is gone needs no answer
}

// kickOffs returns the moments of today and tomorrow in São Paulo.
func kickOffs(now time.Time) []time.Time {
	var list []time.Time
	for day := range 2 {
		y, m, d := scoreboard.DayAfter(scoreboard.Day(now), day).Date()
		for _, clock := range []struct{ hour, minute int }{{11, 0}, {16, 0}, {18, 30}, {21, 30}} {
			list = append(list, time.Date(y, m, d, clock.hour, clock.minute, 0, 0, scoreboard.Day(now).Location()))
		}
	}
	return list
}

// fixtures returns the league's matches whose UTC day is from the one to the other.
func fixtures(league int, from, to string, now time.Time) []map[string]any {
	list := []map[string]any{}
	for i, kickOff := range kickOffs(now) {
		if day := kickOff.UTC().Format(time.DateOnly); day < from || day > to {
			continue
		}
		home, away := pair(clubs(), i)
		if league == worldCup {
			home, away = pair(nations(), i)
		}
		state, period, minutes := stateOf(kickOff, now)
		f := Fixture(1001+i, kickOff, state, home, away)
		if state != stateNotStarted {
			f["scores"] = []map[string]any{Goals("CURRENT", "home", i%3), Goals("CURRENT", "away", i%2)}
		}
		if period > 0 {
			f["periods"] = []map[string]any{{"type_id": period, "ticking": true, "minutes": minutes, "sort_order": period}}
		}
		list = append(list, f)
	}
	return list
}

func matches(now time.Time) []map[string]any {
	list := []map[string]any{}
	for i, kickOff := range kickOffs(now) {
		home, away := pair(nations(), i)
		status := "scheduled"
		if since := now.Sub(kickOff); since >= fullMatch {
			status = "completed"
		} else if since >= 0 {
			status = "in_progress"
		}
		list = append(list, Match(2001+i, kickOff, status, home, away))
	}
	return list
}

// stateOf returns where a match is by the clock: its state, the running period and that one's match minute.
func stateOf(kickOff, now time.Time) (state, period, minutes int) {
	switch since := now.Sub(kickOff); {
	case since < 0:
		return stateNotStarted, 0, 0
	case since < half:
		return stateFirstHalf, 1, int(since / time.Minute)
	case since < half+gap:
		return stateHalfTime, 0, 0
	case since < fullMatch:
		return stateSecondHalf, 2, int((since - gap) / time.Minute)
	default:
		return stateFinished, 0, 0
	}
}

func pair(teams []Side, i int) (home, away Side) {
	return teams[2*i%len(teams)], teams[(2*i+1)%len(teams)]
}

func clubs() []Side {
	return []Side{
		side(1, "Porto Novo", "PNO"), side(2, "Serra Azul", "SAZ"), side(3, "Vila Real", "VRL"),
		side(4, "Lagoa Funda", "LFU"),
		side(5, "Campo Largo", "CLA"), side(6, "Pedra Branca", "PBR"), side(7, "Rio Claro", "RCL"),
		side(8, "Monte Alto", "MAL"),
	}
}

func nations() []Side {
	list := []Side{side(21, "Netherlands", "NED"), side(22, "Japan", "JPN"), side(23, "Brazil", "BRA"),
		side(24, "Morocco", "MAR")}
	for i := range list {
		list[i].Kind = "national"
	}
	return list
}

func side(id int, name, code string) Side {
	return Side{ID: id, Name: name, Code: code, Logo: "https://cdn.example/" + strings.ToLower(code) + ".png"}
}
