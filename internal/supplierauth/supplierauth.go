// Package supplierauth owns the suppliers: their API keys, their sessions (families of refresh tokens), the access
// tokens that are issued to them, and the secrets that sign the webhooks sent to them.
// A database is needed to issue and to end; verifying an access token needs none.
package supplierauth

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
)

// Deps is what the package is built from.
type Deps struct {
	DB  *database.DB
	Log *slog.Logger
	Now func() time.Time // the database's
	// the furthest that Now has been: a token that was issued before the database's clock was set back is good
	Latest func() time.Time
	Local  func() time.Time // this process's, for what lasts within it
	// JWT_SIGNING_KEYS; empty in a process that neither issues nor verifies access tokens
	SigningKeys string
	// SECRETS_KEY; empty in a process that never reads or makes a webhook secret
	SecretsKeys          string
	Issuer, Audience     string // iss and aud of the access tokens
	AllowPrivateWebhooks bool   // accept a webhook URL that names a private address
	// that a supplier may send to this process with its tokens or its key; 0: any number
	RequestsPerSecond int
	// called in each transaction that may make a supplier's receiver callable
	Callable func(ctx context.Context, supplierID string) error
	// called in each transaction that changes a receiver's address, before Callable
	Moved               func(ctx context.Context, supplierID, url string) error
	ReceiverConcurrency int                   // calls that a receiver without a limit of its own takes at once
	Registerer          prometheus.Registerer // nil: the counter is not exported
}

// Service implements the authentication of suppliers. It is safe for concurrent use.
type Service struct {
	deps      Deps
	store     store
	now       func() time.Time
	tokens    *tokens
	sealer    sealer
	limiter   *limiter
	ended     *prometheus.CounterVec
	openings  *groupcommit.Batcher[opening, *grant]
	rotations *groupcommit.Batcher[rotation, *grant]
}

// New reads the keys and starts the group commits; Close ends them. Its errors name the position of a bad key in its
// list, never its value.
func New(d Deps) (*Service, error) {
	keys, err := parseSigningKeys(d.SigningKeys)
	if err != nil {
		return nil, fmt.Errorf("JWT_SIGNING_KEYS: %w", err)
	}
	sealer, err := newSealer(d.SecretsKeys)
	if err != nil {
		return nil, fmt.Errorf("SECRETS_KEY: %w", err)
	}
	ended := promauto.With(d.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "supplyhub_sessions_ended_total",
		Help: "Supplier sessions that were ended, by reason: reuse of a refresh token, revoked, " +
			"deactivated with their supplier, or too_many: the oldest of a supplier with 1,000.",
	}, []string{"reason"})
	for _, reason := range []string{endedByReuse, endedByRevoke, endedByDeactivation, endedByNumber} {
		ended.WithLabelValues(reason) // shown as 0 before the first
	}
	s := &Service{deps: d, store: store{d.DB}, now: d.Now, sealer: sealer, ended: ended,
		tokens:  newTokens(keys, d.Issuer, d.Audience, d.Now, d.Latest),
		limiter: newLimiter(d.RequestsPerSecond, d.Local)}
	flushers := d.DB.Flushers()
	s.openings = groupcommit.New(flushers, sessionBatch, 0, s.flushOpenings)
	s.rotations = groupcommit.New(flushers, sessionBatch, 0, s.flushRotations)
	return s, nil
}
