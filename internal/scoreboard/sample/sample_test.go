package sample_test

import (
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/balldontlie"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sample"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sportmonks"
)

// TestSample_is_read_by_both_providers has a running match at 17:05 in São Paulo.
func TestSample_is_read_by_both_providers(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Date(2026, 11, 21, 20, 5, 0, 0, time.UTC) }
	server := httptest.NewServer(sample.Handler(now))
	t.Cleanup(server.Close)
	log := slog.New(slog.DiscardHandler)
	for _, p := range []scoreboard.Provider{sportmonks.New(server.URL+"/sportmonks", "any", log, now),
		balldontlie.New(server.URL+"/balldontlie", "any", log)} {
		board, err := p.Board(t.Context(), scoreboard.Question{League: 648, Day: scoreboard.Day(now())})
		if err != nil || len(board.Games) != 8 {
			t.Fatalf("%s: %d games, %v", p.Name(), len(board.Games), err)
		}
		statuses := map[scoreboard.Status]int{}
		for _, g := range board.Games {
			statuses[g.Status]++
		}
		if statuses[scoreboard.Finished] != 1 || statuses[scoreboard.InProgress] != 1 || statuses[scoreboard.Scheduled] != 6 {
			t.Errorf("%s: %v", p.Name(), statuses)
		}
	}
	if _, err := sportmonks.New(server.URL, "", log, now).Board(t.Context(),
		scoreboard.Question{League: 648, Day: scoreboard.Day(now())}); err == nil {
		t.Error("a call without a key is answered")
	}
}
