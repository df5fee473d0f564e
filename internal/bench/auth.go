package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
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

// auth measures sessions beside the bare limits of their parts, and what Bearer adds to a ping.
func (p *pipeline) auth(ctx context.Context, drawn *plot) error {
	bare, bareAddress, err := p.startBareSessions()
	if err != nil {
		return err
	}
	signing, _, err := p.measured(ctx, loadPlan{Address: bareAddress, APIKey: "none"})
	if err != nil {
		return fmt.Errorf("bare sessions: %w", err)
	}
	signed := signing.perSecond()
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
		fmt.Printf("  %-30s %8.0f/s   %.2f of the limit of its parts (gin and signing %.0f/s, PostgreSQL %.0f/s), "+
			"p50 %s p99 %s\n",
			run.name, result.perSecond(), result.perSecond()/limit, signed, run.stored, milliseconds(result.P50),
			milliseconds(result.P99))
		drawn.atLeast(run.name+"/s, of the limit of its parts", result.perSecond()/limit, 0.7)
	}
	used, empty, err := p.pings(ctx, bareAddress)
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	fmt.Printf("  %-30s %8.1f us   %.2f of the same without Bearer (%.1f us)\n", "ping with Bearer, CPU a request",
		used*1e3, used/empty, empty*1e3)
	drawn.atMost("CPU of a ping with Bearer, of one without", used/empty, 1.1)
	return p.stop(bare)
}

// pings returns the CPU milliseconds of a ping with Bearer and of one without, asked in turn as the machine's speed
// drifts.
func (p *pipeline) pings(ctx context.Context, bareAddress string) (used, empty float64, err error) {
	const turns = 3
	for range turns {
		for address, sum := range map[string]*float64{p.plan.Address: &used, bareAddress: &empty} {
			_, one, err := p.measured(ctx, loadPlan{Address: address, Paths: []string{pingPath},
				Header: "Authorization: Bearer " + p.plan.Token})
			if err != nil {
				return 0, 0, err
			}
			*sum += one / turns
		}
	}
	return used, empty, nil
}

// measured returns a run of a warm service with the api's CPU milliseconds a request.
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

// bearerlessPing is what is behind Bearer in the service.
func bearerlessPing(c *gin.Context) error {
	if _, err := httpapi.Query(c); err != nil {
		return err
	}
	type supplier struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	httpapi.JSON(c, http.StatusOK, struct {
		Status    string   `json:"status"`
		Supplier  supplier `json:"supplier"`
		ExpiresIn int64    `json:"expires_in"`
	}{"ok", supplier{"sup_0000000000000000", "bench"}, 3600})
	return nil
}

// startBareSessions serves gin with nothing but a signature behind the token route, and a ping that anybody may send.
func (p *pipeline) startBareSessions() (cmd *exec.Cmd, address string, err error) {
	cmd, out, err := p.start("bench", "bare-sessions")
	if err != nil {
		return nil, "", err
	}
	_, err = fmt.Fscan(out, &address)
	return cmd, address, err
}

// bareSessionServer serves the token route with nothing but a signature behind it, and a ping without Bearer.
func bareSessionServer(ctx context.Context) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})
	engine.POST(tokenPath, func(c *gin.Context) {
		now := time.Now()
		token, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
			"iss": "supplyhub", "aud": "supplyhub-api", "sub": "sup_0000000000000000", "client_id": "sup_0000000000000000",
			"sid": rand.Text(), "jti": rand.Text(),
			"scope": "material-requests products", "name": "bench", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		}).SignedString(private)
		if err != nil {
			c.Status(http.StatusInternalServerError)
			return
		}
		httpapi.JSON(c, http.StatusOK, map[string]any{"AccessToken": token, "RefreshToken": rand.Text(),
			"TokenType": "Bearer", "ExpiresIn": 900, "RefreshExpiresIn": 86400})
	})
	engine.GET(pingPath, httpapi.Handle(bearerlessPing))
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
	_, err = pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS bare_sessions (id text PRIMARY KEY, supplier_id text,
		handle_hash bytea UNIQUE, current_hash bytea, last_used_at bigint)`)
	if err != nil {
		return err
	}
	statement := `INSERT INTO bare_sessions SELECT $1::bigint::text, 'sup_0000000000000000',
		sha256($1::text::bytea), sha256('x'), 0`
	if update {
		statement = `UPDATE bare_sessions SET current_hash = sha256(current_hash), last_used_at = last_used_at + 1
			WHERE id = ($1::bigint % 64 + 1)::text`
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
