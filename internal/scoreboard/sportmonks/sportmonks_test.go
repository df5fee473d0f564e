package sportmonks_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sportmonks"
)

func ask(tb testing.TB, handler http.HandlerFunc) (scoreboard.Board, error) {
	tb.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	p := sportmonks.New(server.URL, "token", slog.New(slog.DiscardHandler),
		func() time.Time { return time.Unix(1792277780, 0) })
	return p.Board(context.Background(), scoreboard.Question{League: 648,
		Day: time.Date(2026, 10, 17, 0, 0, 0, 0, time.FixedZone("", -3*60*60))})
}

func TestBoard_asks_for_three_days_with_the_token_in_the_header(t *testing.T) {
	t.Parallel()
	_, err := ask(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/fixtures/between/2026-10-17/2026-10-19" || q.Get("filters") != "fixtureLeagues:648" ||
			q.Get("per_page") != "50" || !strings.Contains(q.Get("include"), "participants.country") ||
			r.Header.Get("Authorization") != "token" || strings.Contains(r.URL.RawQuery, "token") {
			t.Errorf("asked %s with %v", r.URL, r.Header)
		}
		fmt.Fprint(w, `{}`)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBoard_gives_up_on_endless_pages(t *testing.T) {
	t.Parallel()
	if _, err := ask(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[],"pagination":{"has_more":true}}`)
	}); err == nil {
		t.Error("endless pages are an answer")
	}
}

func TestBoard_minute_of_a_period_without_minutes_is_counted_from_its_start(t *testing.T) {
	t.Parallel()
	board, err := ask(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":1,"state_id":22,"starting_at_timestamp":1792272600,
			"periods":[{"type_id":2,"started":1792276440,"ticking":true,"minutes":null,"sort_order":2}]},
			{"id":2,"state_id":2,"starting_at_timestamp":1792272600,
				"periods":[{"type_id":1,"started":0,"ticking":true,"minutes":null}]},
			{"id":"3"},{"id":4,"starting_at_timestamp":null}]}`)
	})
	if err != nil || len(board.Games) != 2 || board.Games[0].Minute != 67 || board.Games[0].Progress != 74 ||
		board.Games[1].Minute != 0 {
		t.Errorf("got %+v, %v", board, err)
	}
}

func FuzzBoard(f *testing.F) {
	f.Add(`{"data":[{"id":1,"state_id":22,"starting_at_timestamp":1792272600,"name":"A vs B",
		"participants":[{"id":1,"name":"A","meta":{"location":"home"},"type":"national","country":{"fifa_name":"BRA"}}],
		"scores":[{"description":"CURRENT","score":{"goals":1,"participant":"home"}}],
		"periods":[{"type_id":2,"ticking":true,"minutes":67}],"stage":{"name":"Final"},"round":null}]}`)
	f.Add(`{"data":[{"id":-1,"state_id":11,"starting_at_timestamp":-9223372036854775808,
		"periods":[{"minutes":-9223372036854775808,"sort_order":1}]}]}`)
	f.Add(`[]`)
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
	defer server.Close()
	p := sportmonks.New(server.URL, "token", slog.New(slog.DiscardHandler), time.Now)
	f.Fuzz(func(t *testing.T, text string) {
		body = text
		board, _ := p.Board(context.Background(), scoreboard.Question{League: 648, Day: time.Unix(0, 0)})
		for _, g := range board.Games {
			if g.Minute < 0 || g.Minute > 120 || g.Progress < 0 || g.Progress > 100 {
				t.Fatalf("%q: %+v", text, g)
			}
		}
	})
}
