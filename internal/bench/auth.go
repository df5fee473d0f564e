package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/supplyhub/supplyhub/internal/httpapi"
)

const (
	tokenPath = "/api/external-auth/token"
	pingPath  = "/api/external/ping"
)

// auth measures sessions beside the bare limits of their parts, and what Bearer adds to an empty handler.
func (p *pipeline) auth(ctx context.Context, drawn *plot) error {
	signed, empty, err := p.bareSessions(ctx)
	if err != nil {
		return err
	}
	inserts, err := p.rate("bare-inserts")
	if err != nil {
		return fmt.Errorf("bare inserts: %w", err)
	}
	updates, err := p.rate("bare-updates")
	if err != nil {
		return fmt.Errorf("bare updates: %w", err)
	}
	fmt.Printf("sessions, %d connections\n", connections)
	for _, run := range []struct {
		name    string
		refresh bool
		stored  float64
	}{{"token", false, inserts}, {"refresh", true, updates}} {
		result, _, err := p.measured(ctx, loadPlan{Address: p.plan.Address, APIKey: p.key, Refresh: run.refresh})
		if err != nil {
			return fmt.Errorf("%s: %w", run.name, err)
		}
		limit := 1 / (1/signed + 1/run.stored)
		fmt.Printf("  %-30s %8.0f/s   %.2f of the limit of its parts (gin and signing %.0f/s, PostgreSQL %.0f/s), p50 %s p99 %s\n",
			run.name, result.perSecond(), result.perSecond()/limit, signed, run.stored, milliseconds(result.P50), milliseconds(result.P99))
		drawn.atLeast(run.name+"/s, of the limit of its parts", result.perSecond()/limit, 0.7)
	}
	_, used, err := p.measured(ctx, loadPlan{Address: p.plan.Address, Paths: []string{pingPath}, Header: "Authorization: Bearer " + p.plan.Token})
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	fmt.Printf("  %-30s %8.1f us   %.2f of an empty handler behind the same engine (%.1f us)\n", "Bearer and ping, CPU a request", used*1e3, used/empty, empty*1e3)
	drawn.atMost("CPU of Bearer and ping, of an empty handler", used/empty, 1.1)
	return nil
}

// measured is a run of a warm service with the api's CPU milliseconds a request.
func (s *stack) measured(ctx context.Context, plan loadPlan) (loadResult, float64, error) {
	plan.Connections, plan.Duration = connections, time.Second
	if _, err := s.load(ctx, plan); err != nil {
		return loadResult{}, 0, err
	}
	before := s.cpu()
	plan.Duration = bareDuration
	result, err := s.load(ctx, plan)
	if err != nil {
		return result, 0, err
	}
	used := s.cpu().since(before)
	return result, (used["api"] + used["bench"]).Seconds() * 1000 / float64(result.Accepted), result.flawless()
}

// bareSessions is how many tokens a second gin signs, and the CPU milliseconds of an empty handler.
func (p *pipeline) bareSessions(ctx context.Context) (signed, empty float64, err error) {
	cmd, out, err := p.start("bench", "bare-sessions")
	if err != nil {
		return 0, 0, err
	}
	var address string
	if _, err := fmt.Fscan(out, &address); err != nil {
		return 0, 0, err
	}
	result, _, err := p.measured(ctx, loadPlan{Address: address, APIKey: "none"})
	if err != nil {
		return 0, 0, err
	}
	_, empty, err = p.measured(ctx, loadPlan{Address: address, Paths: []string{pingPath}, Header: "Authorization: Bearer " + p.plan.Token})
	return result.perSecond(), empty, errors.Join(err, p.stop(cmd))
}

// bareSessionServer serves the token route with nothing but a signature behind it, and an empty handler.
func bareSessionServer(ctx context.Context) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})
	engine.POST(tokenPath, func(c *gin.Context) {
		now := time.Now()
		token, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
			"iss": "supplyhub", "aud": "supplyhub-api", "sub": "sup_0000000000000000", "client_id": "sup_0000000000000000", "sid": rand.Text(), "jti": rand.Text(),
			"scope": "material-requests products", "name": "bench", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		}).SignedString(private)
		if err != nil {
			c.Status(http.StatusInternalServerError)
			return
		}
		httpapi.JSON(c, http.StatusOK, map[string]any{"AccessToken": token, "RefreshToken": rand.Text(), "TokenType": "Bearer", "ExpiresIn": 900, "RefreshExpiresIn": 86400})
	})
	engine.GET(pingPath, func(c *gin.Context) { httpapi.Bytes(c, http.StatusOK, "application/json; charset=utf-8", []byte(`{}`)) })
	return serveBare(ctx, engine)
}

// bareSessionRows prints how many sessions a second PostgreSQL inserts, or updates, one a commit.
func bareSessionRows(ctx context.Context, update bool) error {
	cfg, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS bare_sessions (id text PRIMARY KEY, supplier_id text, handle_hash bytea UNIQUE, current_hash bytea, last_used_at bigint)`)
	if err != nil {
		return err
	}
	statement := `INSERT INTO bare_sessions SELECT $1::bigint::text, 'sup_0000000000000000', sha256($1::text::bytea), sha256('x'), 0`
	if update {
		statement = `UPDATE bare_sessions SET current_hash = sha256(current_hash), last_used_at = last_used_at + 1 WHERE id = ($1::bigint % 64 + 1)::text`
	}
	var next atomic.Int64
	return printRate(func(end time.Time) error {
		for time.Now().Before(end) {
			if _, err := pool.Exec(ctx, statement, next.Add(1)); err != nil {
				return err
			}
		}
		return nil
	}, &next)
}
