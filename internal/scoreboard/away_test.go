package scoreboard_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/balldontlie"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sportmonks"
)

func TestProvider_in_maintenance_is_not_asked_until_it_said(t *testing.T) {
	t.Parallel()
	for header, pause := range map[string]time.Duration{"30": 30 * time.Second, "3600": time.Minute} {
		var calls, status int
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.Header().Set("Retry-After", header)
			w.WriteHeader(status)
			fmt.Fprint(w, `{}`)
		}))
		defer server.Close()
		clock := noon()
		d := rigOf(t, databasetest.Open(t, database.SQLite), clock, 0,
			sportmonks.New(server.URL, "k", slog.New(slog.DiscardHandler), clock.now))
		status = http.StatusServiceUnavailable
		for range 3 {
			if w := d.ask(""); w.Code != http.StatusInternalServerError || w.Header().Get("Retry-After") != "" {
				t.Errorf("%d %v", w.Code, w.Header())
			}
		}
		clock.set(clock.now().Add(pause - time.Second))
		if d.ask(""); calls != 1 {
			t.Errorf("Retry-After %s: asked %d times within its pause", header, calls)
		}
		clock.set(clock.now().Add(time.Second))
		status = http.StatusOK
		if w := d.ask(""); w.Code != http.StatusOK || calls != 2 {
			t.Errorf("Retry-After %s: %d after %d calls", header, w.Code, calls)
		}
		if d.fallback.calls.Load() != 0 {
			t.Error("the second provider was asked")
		}
	}
}

func TestFallback_in_maintenance_is_not_asked_until_it_said(t *testing.T) {
	t.Parallel()
	calls := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls[r.URL.Path[:2]]++
		w.Header().Set("Retry-After", "20")
		if r.URL.Path == "/matches" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	log, clock := slog.New(slog.DiscardHandler), noon()
	s := scoreboard.New(scoreboard.Deps{
		Quotas: scoreboard.NewQuotas(databasetest.Open(t, database.SQLite), clock.now, clock.now), Log: log,
		Keys: []string{"k"}, Primary: sportmonks.New(server.URL, "k", log, clock.now),
		Fallback: balldontlie.New(server.URL, "k", log), Metrics: scoreboard.NewMetrics(nil)})
	d := serve(t, &rig{Service: s, clock: clock})
	for range 3 {
		if w := d.ask(""); w.Code != http.StatusInternalServerError {
			t.Errorf("status %d", w.Code)
		}
	}
	if calls["/f"] != 1 || calls["/m"] != 1 {
		t.Errorf("asked %v", calls)
	}
}

func TestLeagueId_is_not_looked_at_while_active_is_on(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	d := newRig(t, db, noon(), 0)
	set := func(key, value string) {
		if _, err := d.SetSetting(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
		d.clock.set(d.clock.now().Add(5 * time.Second))
	}
	shows := func(query string, status int, league int64) {
		t.Helper()
		w := d.ask(query)
		if w.Code != status || status == http.StatusOK && d.primary.asked.Load() != league {
			t.Errorf("%s: %d, league %d, want %d, %d", query, w.Code, d.primary.asked.Load(), status, league)
		}
	}
	shows("?leagueId=732", 200, 732)
	shows("?leagueId=abc", 400, 0)
	set("scoreboard.active", "true")
	for _, query := range []string{"", "?leagueId=732", "?leagueId=abc", "?leagueId=", "?leagueId=-1", "?leagueId=3.5"} {
		shows(query, 200, 648)
	}
	shows("?leagueId=abc&leagueId=abc", 400, 0)
	set("scoreboard.league_id", "651")
	shows("?leagueId=abc", 200, 651)
	if err := db.From(t.Context()).Exec(`ALTER TABLE settings RENAME TO taken_away`).Error; err != nil {
		t.Fatal(err)
	}
	d.clock.set(d.clock.now().Add(5 * time.Second))
	for query, want := range map[string]string{"?leagueId=abc": "SCOREBOARD_ERROR",
		"?leagueId=abc&referenceDate=x": "INVALID"} {
		if w := d.ask(query); !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), "leagueId") {
			t.Errorf("without the database %s: %s", query, w.Body)
		}
	}
}

func TestRetry_after_never_ends_before_the_reset(t *testing.T) {
	t.Parallel()
	d := newRig(t, databasetest.Open(t, database.SQLite), noon(), 0)
	if _, err := d.SetSetting(t.Context(), "scoreboard.daily_quota", "0"); err != nil {
		t.Fatal(err)
	}
	midnight := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	for before, want := range map[time.Duration]string{1: "1", time.Second: "1", time.Second + 1: "2",
		3*time.Hour + 1: "10801", 3 * time.Hour: "10800"} {
		d.clock.set(midnight.Add(-before))
		if w := d.ask(""); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != want {
			t.Errorf("%s before the reset: %d, Retry-After %s, want %s", before, w.Code, w.Header().Get("Retry-After"), want)
		}
	}
}

func TestRefusal_over_midnight_says_when_the_quota_is_reset(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		clock := noon()
		slow := func() time.Time { // each look at the clock takes a millisecond
			clock.set(clock.now().Add(time.Millisecond))
			return clock.now()
		}
		s := scoreboard.New(scoreboard.Deps{
			Quotas: scoreboard.NewQuotas(db, slow, clock.now), Log: slog.New(slog.DiscardHandler),
			Keys: []string{"k"}, Primary: &source{name: "sportmonks"}, Metrics: scoreboard.NewMetrics(nil)})
		d := serve(t, &rig{Service: s, clock: clock})
		if _, err := d.SetSetting(t.Context(), "scoreboard.daily_quota", "1"); err != nil {
			t.Fatal(err)
		}
		d.ask("")
		granted := 0
		for before := 6; before > 0; before-- { // midnight comes between any two looks
			clock.set(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC).Add(-time.Duration(before) * time.Millisecond))
			w := d.ask("")
			if w.Code == http.StatusOK {
				granted++
				continue
			}
			wait, _ := strconv.ParseInt(w.Header().Get("Retry-After"), 10, 64)
			reset, _ := strconv.ParseInt(w.Header().Get("X-RateLimit-Reset"), 10, 64)
			if now := clock.now(); wait < 1 || reset <= now.Unix() || reset-now.Unix()-wait > 1 {
				t.Errorf("%d looks before midnight: %d, Retry-After %d, Reset %d, now %d", before, w.Code, wait, reset,
					now.Unix())
			}
		}
		if granted != 1 {
			t.Errorf("%d units of the new day were granted, want 1", granted)
		}
	})
}

func TestQuota_headers_tell_what_was_read_last_while_the_database_is_away(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := newRig(t, db, noon(), 0)
		replica := newRig(t, db, d.clock, 0)
		if _, err := d.SetSetting(t.Context(), "scoreboard.daily_quota", "50"); err != nil {
			t.Fatal(err)
		}
		d.clock.set(d.clock.now().Add(5 * time.Second))
		d.ask("")
		replica.ask("")
		d.ask("?leagueId=x") // reads what both have spent
		if err := db.From(t.Context()).Exec(`ALTER TABLE scoreboard_usage RENAME TO taken_away`).Error; err != nil {
			t.Fatal(err)
		}
		d.clock.set(d.clock.now().Add(time.Minute))
		for _, query := range []string{"", "?leagueId=x", "?partner=y"} {
			if w := d.ask(query); w.Code == http.StatusOK || w.Header().Get("X-RateLimit-Limit") != "50" ||
				w.Header().Get("X-RateLimit-Remaining") != "48" {
				t.Errorf("%q: %d, %v", query, w.Code, w.Header())
			}
		}
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		if d.engine.ServeHTTP(w, r); w.Code != http.StatusMethodNotAllowed ||
			w.Header().Get("X-RateLimit-Remaining") != "48" ||
			w.Header().Get("Allow") != "POST" || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/problem") {
			t.Errorf("another method: %d %v", w.Code, w.Header())
		}
	})
}

func TestUnavailable_database_is_503_with_Retry_After(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	d := newRig(t, db, noon(), 0)
	d.ask("")
	databasetest.Freeze(t, db, "LOCK TABLE scoreboard_usage IN ACCESS EXCLUSIVE MODE")
	if w := d.ask(""); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" ||
		w.Header().Get("X-RateLimit-Remaining") != "79" || !strings.Contains(w.Body.String(), "SERVICE_UNAVAILABLE") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}
