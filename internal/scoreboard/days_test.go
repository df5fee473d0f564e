package scoreboard_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
)

type shown struct {
	MatchID       string `json:"match_id"`
	ScheduledAt   string `json:"scheduled_at"`
	ScheduledDate string `json:"scheduled_date"`
	ScheduledTime string `json:"scheduled_time"`
	HomeScore     int    `json:"home_score"`
	AwayScore     int    `json:"away_score"`
	Home          struct {
		Logo string `json:"logo"`
	} `json:"home_team"`
}

type answered struct {
	Response struct {
		Competition struct {
			Logo string `json:"logo"`
		} `json:"competition"`
		Result struct {
			Scoreboard struct {
				Games []shown `json:"games"`
			} `json:"scoreboard"`
		} `json:"result"`
	} `json:"Response"`
}

// showing asks a rig whose provider has the board.
func showing(t *testing.T, query string, board scoreboard.Board) answered {
	t.Helper()
	d := newRig(t, databasetest.Open(t, database.SQLite), noon(), 0)
	d.primary.board = func(context.Context) (scoreboard.Board, error) { return board, nil }
	w := d.ask(query)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", query, w.Code, w.Body)
	}
	var a answered
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func games(kickOffs ...string) (board scoreboard.Board) {
	for i, text := range kickOffs {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			panic(err)
		}
		board.Games = append(board.Games, scoreboard.Game{ID: int64(i + 1), KickOff: at,
			Status: scoreboard.Scheduled})
	}
	return board
}

func TestDays_follow_the_daylight_saving_time_that_Sao_Paulo_had(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ query, first, last, before, after string }{
		"in summer": {"?referenceDate=2018-11-10", "2018-11-10T02:00:00Z", "2018-11-12T01:59:59Z",
			"2018-11-10T01:59:59Z", "2018-11-12T02:00:00Z"},
		"in winter": {"?referenceDate=2018-06-14", "2018-06-14T03:00:00Z", "2018-06-16T02:59:59Z",
			"2018-06-14T02:59:59Z", "2018-06-16T03:00:00Z"},
		"the day whose midnight is not": {"?referenceDate=2018-11-04", "2018-11-04T03:00:00Z", "2018-11-06T01:59:59Z",
			"2018-11-04T02:59:59Z", "2018-11-06T02:00:00Z"},
		"the day before it": {"?referenceDate=2018-11-03T23:30:00", "2018-11-03T03:00:00Z",
			"2018-11-05T01:59:59Z", "2018-11-03T02:59:59Z", "2018-11-05T02:00:00Z"},
		"the next day is that one": {"?referenceDate=2018-11-02", "2018-11-02T03:00:00Z", "2018-11-04T02:59:59Z",
			"2018-11-02T02:59:59Z", "2018-11-04T03:00:00Z"},
		"the day of 25 hours": {"?referenceDate=2018-02-17", "2018-02-17T02:00:00Z", "2018-02-19T02:59:59Z",
			"2018-02-17T01:59:59Z", "2018-02-19T03:00:00Z"},
		"a moment of another zone": {"?referenceDate=2018-11-10T02:00:00Z", "2018-11-10T02:00:00Z",
			"2018-11-12T01:59:59Z", "2018-11-10T01:59:59Z", "2018-11-12T02:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ids []string
			for _, g := range showing(t, test.query,
				games(test.before, test.first, test.last, test.after)).Response.Result.Scoreboard.Games {
				ids = append(ids, g.MatchID)
			}
			if got := strings.Join(ids, ""); got != "23" {
				t.Errorf("shown are %q of 1234, want 23", got)
			}
		})
	}
}

func TestMatch_times_keep_the_promised_offset_and_the_civil_clock(t *testing.T) {
	t.Parallel()
	list := showing(t, "?referenceDate=2018-11-10", games("2018-11-10T23:00:00Z")).Response.Result.Scoreboard.Games
	if len(list) != 1 || list[0].ScheduledAt != "2018-11-10T20:00:00-03:00" || list[0].ScheduledDate != "2018-11-10" ||
		list[0].ScheduledTime != "21:00" {
		t.Errorf("got %+v", list)
	}
}

func TestHostile_logos_and_negative_scores_do_not_pass(t *testing.T) {
	t.Parallel()
	for logo, want := range map[string]string{
		"javascript:alert(1)": "", "file:///etc/passwd": "", "data:image/svg+xml,x": "", " javascript:alert(1)": "",
		"//cdn.example/a.png": "", "a.png": "", "": "", "https:a.png": "",
		"https://cdn.example/a.png": "https://cdn.example/a.png", "http://cdn.example/a.png": "http://cdn.example/a.png",
		"HTTPS://cdn.example/a.png": "HTTPS://cdn.example/a.png",
	} {
		board := games("2026-11-21T15:00:00Z")
		board.Competition.Logo = logo
		board.Games[0].Home.Logo, board.Games[0].Score = logo, [2]int{-1, 2}
		a := showing(t, "", board)
		list := a.Response.Result.Scoreboard.Games
		if len(list) != 1 || list[0].Home.Logo != want || a.Response.Competition.Logo != want || list[0].HomeScore != 0 ||
			list[0].AwayScore != 2 {
			t.Errorf("%q: %+v", logo, a.Response)
		}
	}
}

func TestReferenceDate_of_no_football_is_refused(t *testing.T) {
	t.Parallel()
	d := newRig(t, databasetest.Open(t, database.SQLite), noon(), 0)
	for _, query := range []string{"0001-01-01", "0001-01-01T00:00:00Z", "1899-12-31", "9999-01-01"} {
		if w := d.ask("?referenceDate=" + query); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
	if w := d.ask("?referenceDate=1900-01-01"); w.Code != http.StatusOK {
		t.Errorf("1900: %d", w.Code)
	}
}

func TestQuota_is_written_in_digits_alone(t *testing.T) {
	t.Parallel()
	d := newRig(t, databasetest.Open(t, database.SQLite), noon(), 0)
	for _, value := range []string{" 5", "5 ", "+5", "-5", "5.0", ""} {
		if _, err := d.SetSetting(t.Context(), "scoreboard.daily_quota", value); err == nil {
			t.Errorf("%q is accepted", value)
		}
	}
}

func TestStart_says_that_a_token_is_missing(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	for keys, want := range map[string]int{"k": 1, "": 0} {
		var log strings.Builder
		scoreboard.New(scoreboard.Deps{Quotas: scoreboard.NewQuotas(db, time.Now, time.Now),
			Log: slog.New(slog.NewTextHandler(&log, nil)), Keys: strings.Fields(keys)}).Close()
		if strings.Count(log.String(), "SPORTMONKS_API_TOKEN") != want {
			t.Errorf("keys %q: %s", keys, &log)
		}
	}
}

func TestWithout_a_token_each_call_spends_a_unit(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := rigOf(t, db, noon(), 0, nil)
		for _, left := range []string{"79", "78", "77"} { // a unit is spent whatever the outcome
			if w := d.ask(""); w.Code != http.StatusInternalServerError || w.Header().Get("X-RateLimit-Remaining") != left {
				t.Errorf("%d, %s left", w.Code, w.Header().Get("X-RateLimit-Remaining"))
			}
		}
		if _, err := d.SetSetting(t.Context(), "scoreboard.daily_quota", "0"); err != nil {
			t.Fatal(err)
		}
		d.clock.set(d.clock.now().Add(5 * time.Second))
		if w := d.ask(""); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("without quota: %d", w.Code)
		}
	})
}
