package supplierauth

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// Access tokens are JWTs that any process verifies without the database, by the keys of JWT_SIGNING_KEYS: the first
// signs, all verify, so that a rotation is a new first key. No token can be taken back before it expires, a
// deactivated supplier's neither: that one is refused at its next refresh.

const (
	algorithm      = "EdDSA"
	tokenType      = "at+jwt"         // RFC 9068
	clockSkew      = 30 * time.Second // a token of a replica whose clock is ahead is valid at once
	maxAccessToken = 4096             // characters
	verifiedTokens = 8192             // how many verified tokens are remembered
)

var errTokenRefused = errors.New("the access token is not valid")

// tokens issues and verifies access tokens. The first key signs, all verify.
type tokens struct {
	issuer, audience string
	now, latest      func() time.Time
	keys             []signingKey
	parser           *jwt.Parser
	verified         *lru.Cache[[32]byte, caller.Principal] // by the token's hash: only tokens whose signature was good
}

// claims of an access token. Name is the supplier's, so that ping needs no database.
type claims struct {
	jwt.RegisteredClaims
	Audience  string `json:"aud"`
	ClientID  string `json:"client_id"`
	SessionID string `json:"sid"`
	Scope     string `json:"scope"`
	Name      string `json:"name"`
}

// GetAudience returns the audience that golang-jwt checks.
func (c claims) GetAudience() (jwt.ClaimStrings, error) { return jwt.ClaimStrings{c.Audience}, nil }

// GetNotBefore leaves nbf to check.
func (c claims) GetNotBefore() (*jwt.NumericDate, error) { return nil, nil }

// newTokens returns what issues with the first key and verifies with all of them.
func newTokens(keys []signingKey, issuer, audience string, now, latest func() time.Time) *tokens {
	cache, _ := lru.New[[32]byte, caller.Principal](verifiedTokens) // it fails without a size alone
	return &tokens{issuer: issuer, audience: audience, now: now, latest: latest, keys: keys, verified: cache,
		parser: jwt.NewParser(jwt.WithValidMethods([]string{algorithm}), jwt.WithStrictDecoding(),
			jwt.WithExpirationRequired(), jwt.WithIssuer(issuer), jwt.WithAudience(audience), jwt.WithTimeFunc(now)),
	}
}

// issue signs an access token for the session.
func (t *tokens) issue(g grant) (string, error) {
	if len(t.keys) == 0 {
		return "", errors.New("JWT_SIGNING_KEYS is not set: no access token can be issued")
	}
	now := t.now().Truncate(time.Second)
	key := t.keys[0]
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: t.issuer, Subject: g.SupplierID, ID: rand.Text(), IssuedAt: jwt.NewNumericDate(now),
			NotBefore: jwt.NewNumericDate(now.Add(-clockSkew)), ExpiresAt: jwt.NewNumericDate(now.Add(g.accessTTL())),
		},
		Audience: t.audience, ClientID: g.SupplierID, SessionID: g.SessionID, Scope: g.Scopes, Name: g.Name,
	})
	token.Header["kid"], token.Header["typ"] = key.jwk.ID, tokenType
	signed, err := token.SignedString(key.private)
	return signed, errs.Doing("sign access token", err)
}

// verify returns who an access token speaks for. Every fault is errTokenRefused.
func (t *tokens) verify(token string) (caller.Principal, error) {
	if len(token) > maxAccessToken {
		return caller.Principal{}, errTokenRefused
	}
	sum := sha256.Sum256([]byte(token))
	if p, found := t.verified.Get(sum); found {
		if !t.now().Before(p.ExpiresAt) {
			return caller.Principal{}, errTokenRefused
		}
		return p, nil
	}
	p, err := t.check(token)
	if err == nil {
		t.verified.Add(sum, p)
	}
	return p, err
}

// check lets the library verify the token. A line break, which its decoder skips, would be another spelling.
func (t *tokens) check(token string) (caller.Principal, error) {
	var c claims
	_, err := t.parser.ParseWithClaims(token, &c, t.key)
	if err != nil || strings.ContainsAny(token, "\r\n") || !validID(c.Subject) || !validID(c.SessionID) ||
		c.NotBefore == nil || c.NotBefore.After(t.latest()) {
		return caller.Principal{}, errTokenRefused
	}
	return caller.Principal{
		SupplierID: c.Subject, SupplierName: c.Name, SessionID: c.SessionID,
		Scopes: strings.Fields(c.Scope), ExpiresAt: c.ExpiresAt.UTC(),
	}, nil
}

// key returns the key that a header names: it has our type, and nothing that would change how the token is read.
func (t *tokens) key(token *jwt.Token) (any, error) {
	header := token.Header
	for _, key := range t.keys {
		if header["kid"] == key.jwk.ID && header["typ"] == tokenType && header["crit"] == nil && header["b64"] == nil {
			return key.private.Public(), nil
		}
	}
	return nil, errTokenRefused
}

// validID reports whether a claim can be the id of something here: no engine takes NUL, no log line a control
// character.
func validID(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}
