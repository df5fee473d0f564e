package scoreboard_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

// source is a provider that answers what the test says.
type source struct {
	name  string
	calls atomic.Int64
	asked atomic.Int64 // the last league
	board func(ctx context.Context) (scoreboard.Board, error)
}

func (s *source) Name() string { return s.name }

func (s *source) Board(ctx context.Context, q scoreboard.Question) (scoreboard.Board, error) {
	s.calls.Add(1)
	s.asked.Store(q.League)
	if s.board == nil {
		return scoreboard.Board{}, nil
	}
	return s.board(ctx)
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// rig is a service behind its route.
type rig struct {
	*scoreboard.Service
	primary, fallback *source
	clock             *clock
	registry          *prometheus.Registry
	engine            *gin.Engine
}

func newRig(tb testing.TB, db *database.DB, clock *clock, ttl time.Duration) *rig {
	tb.Helper()
	primary := &source{name: "sportmonks"}
	d := rigOf(tb, db, clock, ttl, primary)
	d.primary = primary
	return d
}

// rigOf is a rig with any first provider; nil: there is no token for it.
func rigOf(tb testing.TB, db *database.DB, clock *clock, ttl time.Duration, primary scoreboard.Provider) *rig {
	tb.Helper()
	d := &rig{fallback: &source{name: "balldontlie"}, clock: clock, registry: prometheus.NewRegistry()}
	d.Service = scoreboard.New(scoreboard.Deps{
		Quotas: scoreboard.NewQuotas(db, clock.now, clock.now), Log: slog.New(slog.DiscardHandler),
		Keys: []string{"k"}, Primary: primary, Fallback: d.fallback, CacheTTL: ttl,
		Metrics: scoreboard.NewMetrics(d.registry, "sportmonks", "balldontlie"),
	})
	return serve(tb, d)
}

// serve puts a rig's service behind its route.
func serve(tb testing.TB, d *rig) *rig {
	tb.Helper()
	tb.Cleanup(d.Close)
	d.engine = httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})
	d.engine.POST("/", httpapi.HandleWith(d.Show, scoreboard.RenderError))
	d.engine.NoMethod(d.MethodNotAllowed("/", httpapi.MethodNotAllowed))
	return d
}

func (d *rig) ask(query string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/"+query, nil)
	r.Header.Set("svc-pulse-key", "k")
	w := httptest.NewRecorder()
	d.engine.ServeHTTP(w, r)
	return w
}

func noon() *clock { return &clock{at: time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)} }

func TestQuota_begins_again_at_midnight_in_Sao_Paulo(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		clock := noon()
		clock.set(time.Date(2026, 11, 22, 2, 59, 59, 0, time.UTC)) // a second before
		d := newRig(t, db, clock, 0)
		if _, err := d.SetSetting(t.Context(), "scoreboard.daily_quota", "1"); err != nil {
			t.Fatal(err)
		}
		if w := d.ask(""); w.Code != 200 || w.Header().Get("X-RateLimit-Remaining") != "0" ||
			w.Header().Get("X-RateLimit-Reset") != strconv.FormatInt(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC).Unix(), 10) {
			t.Errorf("the first: %d %v", w.Code, w.Header())
		}
		if w := d.ask(""); w.Code != 429 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("the second: %d %v", w.Code, w.Header())
		}
		clock.set(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC))
		if w := d.ask(""); w.Code != 200 {
			t.Errorf("at midnight: %d", w.Code)
		}
	})
}

func TestPartner_with_any_other_value_is_requester_B_and_unknown_parameters_are_ignored(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := newRig(t, db, noon(), time.Minute)
		for i, query := range []string{"?partner=other", "?partner=jo%E3o", "?partner=%00", "?x=%ff"} {
			w := d.ask(query)
			if left := w.Header().Get("X-RateLimit-Remaining"); w.Code != 200 || left != strconv.Itoa(79-i) {
				t.Errorf("%s: %d, %s left of partner_b's: %s", query, w.Code, left, w.Body)
			}
		}
	})
}

func TestQuota_is_counted_over_replicas_exactly(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		clock := noon()
		rigs := []*rig{newRig(t, db, clock, 0), newRig(t, db, clock, 0)}
		var granted atomic.Int64
		var group sync.WaitGroup
		for i := range 200 {
			group.Go(func() {
				if rigs[i%2].ask("").Code == 200 {
					granted.Add(1)
				}
			})
		}
		group.Wait()
		if granted.Load() != 80 {
			t.Errorf("%d of 200 were granted, the quota is 80", granted.Load())
		}
		if w := rigs[0].ask("?partner=loop"); w.Header().Get("X-RateLimit-Remaining") != "79" {
			t.Errorf("the other requester has %s left", w.Header().Get("X-RateLimit-Remaining"))
		}
	})
}

func TestPrimary_is_asked_again_when_its_rate_limit_says_so(t *testing.T) {
	t.Parallel()
	clock := noon()
	d := newRig(t, databasetest.Open(t, database.SQLite), clock, 0)
	for _, test := range []struct{ retryAfter, pause time.Duration }{{90 * time.Second, 90 * time.Second},
		{0, time.Minute},
		{48 * time.Hour, 24 * time.Hour}} {
		d.primary.board = func(context.Context) (scoreboard.Board, error) {
			return scoreboard.Board{}, &fetch.RateLimited{RetryAfter: test.retryAfter}
		}
		before := d.primary.calls.Load()
		for _, at := range []time.Duration{0, test.pause - time.Second} {
			clock.set(clock.now().Add(at))
			if w := d.ask(""); w.Code != 200 {
				t.Fatalf("the fallback: %d %s", w.Code, w.Body)
			}
		}
		if n := d.primary.calls.Load() - before; n != 1 {
			t.Errorf("Retry-After %s: it was asked %d times within its pause", test.retryAfter, n)
		}
		clock.set(clock.now().Add(time.Second))
		d.primary.board = nil
		d.ask("")
		if n := d.primary.calls.Load() - before; n != 2 {
			t.Errorf("Retry-After %s: it was asked %d times after %s", test.retryAfter, n, test.pause)
		}
	}
}

func TestPrimary_rests_as_long_as_it_said_whatever_an_earlier_call_is_given(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]error{"no time": &fetch.RateLimited{},
		"a shorter one": &fetch.RateLimited{RetryAfter: 10 * time.Minute},
		"maintenance":   &fetch.Away{RetryAfter: time.Minute}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := noon()
			d := newRig(t, databasetest.Open(t, database.SQLite), clock, 0)
			answers := make(chan error) // the earlier call waits for it
			d.primary.board = func(context.Context) (scoreboard.Board, error) {
				if d.primary.calls.Load() == 1 {
					answers <- nil
					return scoreboard.Board{}, <-answers
				}
				return scoreboard.Board{}, &fetch.RateLimited{RetryAfter: 30 * time.Minute}
			}
			var earlier sync.WaitGroup
			earlier.Go(func() { d.ask("?leagueId=1") })
			<-answers
			d.ask("?leagueId=2")
			answers <- given
			earlier.Wait()
			clock.set(clock.now().Add(30*time.Minute - time.Second))
			if w := d.ask("?leagueId=3"); w.Code != http.StatusOK || d.primary.calls.Load() != 2 {
				t.Errorf("%d after %d calls, want the fallback's answer after 2", w.Code, d.primary.calls.Load())
			}
			clock.set(clock.now().Add(time.Second))
			if d.ask("?leagueId=3"); d.primary.calls.Load() != 3 {
				t.Errorf("after its rest it was asked %d times, want 3", d.primary.calls.Load())
			}
		})
	}
}

func TestSlowProvider_cannot_exhaust_the_process(t *testing.T) {
	t.Parallel()
	d := newRig(t, databasetest.Open(t, database.SQLite), noon(), 0)
	if _, err := d.SetSetting(t.Context(), "scoreboard.daily_quota", "1000"); err != nil {
		t.Fatal(err)
	}
	var inside, most atomic.Int64
	release := make(chan struct{})
	d.primary.board = func(ctx context.Context) (scoreboard.Board, error) {
		most.Store(max(most.Load(), inside.Add(1)))
		defer inside.Add(-1)
		select {
		case <-release:
			return scoreboard.Board{}, nil
		case <-ctx.Done():
			return scoreboard.Board{}, ctx.Err()
		}
	}
	var group sync.WaitGroup
	for i := range 60 {
		group.Go(func() { d.ask("?leagueId=" + strconv.Itoa(i+1)) })
	}
	for inside.Load() < 16 { // the rest waits
		select {
		case <-t.Context().Done():
			t.Fatal("the provider is not asked")
		case <-time.After(time.Millisecond):
		}
	}
	close(release)
	group.Wait()
	if most.Load() > 16 {
		t.Errorf("%d questions at a time", most.Load())
	}
}

func TestCache_ends_by_time_and_keeps_no_failure(t *testing.T) {
	t.Parallel()
	clock := noon()
	d := newRig(t, databasetest.Open(t, database.SQLite), clock, 10*time.Second)
	d.primary.board = func(context.Context) (scoreboard.Board, error) { return scoreboard.Board{}, errors.New("broken") }
	for range 2 {
		if w := d.ask(""); w.Code != 500 {
			t.Fatalf("status %d", w.Code)
		}
	}
	d.primary.board = nil
	for range 3 {
		d.ask("")
	}
	if n := d.primary.calls.Load(); n != 3 {
		t.Errorf("%d calls", n)
	}
	clock.set(clock.now().Add(10 * time.Second))
	d.ask("")
	if n := d.primary.calls.Load(); n != 4 {
		t.Errorf("%d calls after its time", n)
	}
}

func BenchmarkCachedAnswer(b *testing.B) {
	databasetest.EachB(b, func(b *testing.B, db *database.DB) {
		d := newRig(b, db, noon(), time.Hour)
		if _, err := d.SetSetting(b.Context(), "scoreboard.daily_quota", "1000000000"); err != nil {
			b.Fatal(err)
		}
		d.primary.board = func(context.Context) (scoreboard.Board, error) {
			board := scoreboard.Board{Competition: scoreboard.Competition{Name: "A"}}
			for i := range 10 {
				board.Games = append(board.Games, scoreboard.Game{ID: int64(i), KickOff: d.clock.now(),
					Status: scoreboard.Scheduled})
			}
			return board, nil
		}
		body := d.ask("").Body.Bytes()
		bare := gin.New()
		bare.POST("/", func(c *gin.Context) { c.Data(http.StatusOK, "application/json", body) })
		for name, engine := range map[string]http.Handler{"service": d.engine, "bare": bare} {
			b.Run(name, func(b *testing.B) {
				server := httptest.NewServer(engine)
				defer server.Close()
				client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
				b.SetParallelism(32) // times two processors: 64 connections
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						r, _ := http.NewRequest(http.MethodPost, server.URL+"/", nil)
						r.Header.Set("svc-pulse-key", "k")
						response, err := client.Do(r)
						if err != nil {
							b.Error(err)
							return
						}
						_ = response.Body.Close()
					}
				})
			})
		}
	})
}

func TestPanic_of_a_provider_is_a_500_and_the_process_lives(t *testing.T) {
	t.Parallel()
	d := newRig(t, databasetest.Open(t, database.SQLite), noon(), 0)
	d.primary.board = func(context.Context) (scoreboard.Board, error) { panic("a decoder's defect") }
	for range 2 {
		if w := d.ask(""); w.Code != http.StatusInternalServerError ||
			!strings.Contains(w.Body.String(), "SCOREBOARD_ERROR") {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	}
	d.primary.board = nil
	if w := d.ask(""); w.Code != http.StatusOK {
		t.Errorf("afterwards %d %s", w.Code, w.Body)
	}
}

func TestSettings_a_caller_that_gives_up_waits_for_no_other_s_read(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	d := newRig(t, db, noon(), 0)
	var patient sync.WaitGroup
	held := errors.New("held long enough")
	err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
		if err := db.From(ctx).Exec("LOCK TABLE settings IN ACCESS EXCLUSIVE MODE").Error; err != nil {
			return err
		}
		refused := "?leagueId=x" // it gets the quota, for which the settings are read
		for range 10 {
			patient.Go(func() { d.ask(refused) })
		}
		waiting := "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'settings'::regclass)"
		for reads := false; !reads; {
			if err := db.From(ctx).Raw(waiting).Scan(&reads).Error; err != nil {
				return err
			}
		}
		hurried, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		begin := time.Now()
		r := httptest.NewRequestWithContext(hurried, http.MethodPost, "/"+refused, nil)
		r.Header.Set("svc-pulse-key", "k")
		d.engine.ServeHTTP(httptest.NewRecorder(), r)
		if took := time.Since(begin); took > 15*time.Second { // in turn, ten reads that get no answer take 50 s
			t.Errorf("a caller that gave up after 10 ms waited for %v", took)
		}
		return held
	})
	if !errors.Is(err, held) {
		t.Fatal(err)
	}
	patient.Wait()
}
