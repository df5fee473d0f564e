package balldontlie_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/balldontlie"
)

func ask(tb testing.TB, year int, handler http.HandlerFunc) (scoreboard.Board, error) {
	tb.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	return balldontlie.New(server.URL, "key", slog.New(slog.DiscardHandler)).Board(context.Background(),
		scoreboard.Question{Day: time.Date(year, 6, 14, 0, 0, 0, 0, time.UTC)})
}

func TestBoard_reads_the_season_to_its_end(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"": `{"data":[{"id":1,"datetime":"2022-06-14T19:00:00Z","status":"COMPLETED","stage":null,"group":{"name":"A"},
			"home_team":{"id":5,"name":"Germany","abbreviation":"","country_code":"DEU"},"home_score":3,
			"home_score_penalties":4}],"meta":{"next_cursor":7}}`,
		"7": `{"data":[{"id":2,"datetime":"2022-06-14T19:00:00.123Z","status":"scheduled",
			"stage":{"name":"Third-place match"},"away_team_source":{"placeholder":"W74"}},
			{"id":"x"},{"id":3}],"meta":{"next_cursor":"7"}}`,
	}
	board, err := ask(t, 2022, func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("seasons[]") != "2022" || q.Get("per_page") != "100" ||
			r.Header.Get("Authorization") != "key" {
			t.Errorf("asked %s", r.URL)
		}
		fmt.Fprint(w, pages[r.URL.Query().Get("cursor")])
	})
	if err != nil || len(board.Games) != 2 {
		t.Fatalf("got %+v, %v", board, err)
	}
	first, second := board.Games[0], board.Games[1]
	if first.Status != scoreboard.Finished || first.Stage != scoreboard.GroupStage || first.Home.NamePT != "Alemanha" ||
		first.Score != [2]int{3, 0} || first.Minute != 0 || first.Progress != 100 {
		t.Errorf("got %+v", first)
	}
	if second.Stage != scoreboard.ThirdPlaceFinal || second.Home.Name != "A definir" || second.Away.Name != "W74" {
		t.Errorf("got %+v", second)
	}
}

func TestBoard_every_failure_is_one(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"429":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"401":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Unauthorized", http.StatusUnauthorized) },
		"not JSON": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"endless pages": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"data":[{}],"meta":{"next_cursor":"%sx"}}`, r.URL.Query().Get("cursor"))
		},
	} {
		if _, err := ask(t, 2026, handler); err == nil {
			t.Errorf("%s is an answer", name)
		}
	}
	if _, err := ask(t, 2025, func(http.ResponseWriter, *http.Request) {
		t.Error("a year without a World Cup was asked for")
	}); err == nil {
		t.Error("2025 has a World Cup")
	}
}

func FuzzBoard(f *testing.F) {
	f.Add(`{"data":[{"id":1,"datetime":"2026-06-11T19:00:00Z","status":"completed","stage":{"name":"Group Stage"},
		"home_team":null,"away_team_source":{"description":"x"},"home_score":null}],"meta":{"next_cursor":null}}`)
	f.Add(`{"data":[{}],"meta":{"next_cursor":{"a":1}}}`)
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
	defer server.Close()
	p := balldontlie.New(server.URL, "key", slog.New(slog.DiscardHandler))
	f.Fuzz(func(t *testing.T, text string) {
		body = text
		board, _ := p.Board(context.Background(), scoreboard.Question{Day: time.Date(2026, 6, 14, 0, 0, 0, 0, time.UTC)})
		for _, g := range board.Games {
			if g.Minute != 0 || g.Progress < 0 || g.Progress > 100 {
				t.Fatalf("%q: %+v", text, g)
			}
		}
	})
}
