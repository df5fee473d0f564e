package supplierauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	Audience  audience `json:"aud"`
	ClientID  string   `json:"client_id"`
	SessionID string   `json:"sid"`
	Scope     string   `json:"scope"`
	Name      string   `json:"name"`
}

// GetAudience returns the audience that golang-jwt checks.
func (c claims) GetAudience() (jwt.ClaimStrings, error) { return jwt.ClaimStrings(c.Audience), nil }

// GetNotBefore leaves nbf to check.
func (c claims) GetNotBefore() (*jwt.NumericDate, error) { return nil, nil }

// audience is one text, or on other issuers' habit a list (RFC 7519, 4.1.3); one is written as a text.
type audience jwt.ClaimStrings

// MarshalJSON writes a single audience as a text.
func (a audience) MarshalJSON() ([]byte, error) {
	if len(a) == 1 {
		return json.Marshal(a[0])
	}
	return json.Marshal([]string(a))
}

// UnmarshalJSON reads a text or a list of them.
func (a *audience) UnmarshalJSON(text []byte) error {
	return (*jwt.ClaimStrings)(a).UnmarshalJSON(text)
}

// newTokens returns what issues with the first key and verifies with all of them.
func newTokens(keys []signingKey, issuer, audience string, now, latest func() time.Time) (*tokens, error) {
	cache, err := lru.New[[32]byte, caller.Principal](verifiedTokens)
	if err != nil {
		return nil, err
	}
	return &tokens{issuer: issuer, audience: audience, now: now, latest: latest, keys: keys, verified: cache,
		parser: jwt.NewParser(jwt.WithValidMethods([]string{algorithm}), jwt.WithStrictDecoding(),
			jwt.WithExpirationRequired(), jwt.WithIssuer(issuer), jwt.WithAudience(audience), jwt.WithTimeFunc(now)),
	}, nil
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
		Audience: audience{t.audience}, ClientID: g.SupplierID, SessionID: g.SessionID, Scope: g.Scopes, Name: g.Name,
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

// check does what golang-jwt alone does not: it takes the key first, from a header without anything that would change
// how the token is read, and only then lets the library verify by it.
func (t *tokens) check(token string) (caller.Principal, error) {
	if !compact(token) {
		return caller.Principal{}, errTokenRefused
	}
	key := t.keyOf(token[:strings.IndexByte(token, '.')])
	if key < 0 {
		return caller.Principal{}, errTokenRefused
	}
	var c claims
	_, err := t.parser.ParseWithClaims(token, &c,
		func(*jwt.Token) (any, error) { return t.keys[key].private.Public(), nil })
	if err != nil || !validID(c.Subject) || !validID(c.SessionID) || !numericDates(token) ||
		c.NotBefore.After(t.latest()) {
		return caller.Principal{}, errTokenRefused
	}
	return caller.Principal{
		SupplierID: c.Subject, SupplierName: c.Name, SessionID: c.SessionID,
		Scopes: strings.Fields(c.Scope), ExpiresAt: c.ExpiresAt.UTC(),
	}, nil
}

// validID reports whether a claim can be the id of something here: no engine takes NUL, no log line a control
// character.
func validID(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// numericDates reports whether the dates of a verified token are numbers (RFC 7519, 2); golang-jwt takes texts too.
func numericDates(token string) bool {
	payload, err := base64.RawURLEncoding.Strict().DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return false
	}
	var dates struct {
		ExpiresAt jsontext.Value `json:"exp"`
		NotBefore jsontext.Value `json:"nbf"`
		IssuedAt  jsontext.Value `json:"iat"`
	}
	if err := json.Unmarshal(payload, &dates); err != nil {
		return false
	}
	return dates.ExpiresAt.Kind() == '0' && dates.NotBefore.Kind() == '0' &&
		(dates.IssuedAt == nil || dates.IssuedAt.Kind() == '0')
}

// compact reports whether the text is three segments of base64url without padding.
func compact(token string) bool {
	dots := 0
	for _, c := range []byte(token) {
		switch {
		case c == '.':
			dots++
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return dots == 2
}

// keyOf reads the first segment: a known key, whose place it returns, the algorithm, our type and no extension. -1: it
// is another one.
func (t *tokens) keyOf(segment string) int {
	var header struct {
		Algorithm string         `json:"alg"`
		KeyID     string         `json:"kid"`
		Type      string         `json:"typ"`
		Critical  jsontext.Value `json:"crit"`
		Base64    jsontext.Value `json:"b64"`
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(segment)
	if err != nil || json.Unmarshal(raw, &header) != nil || header.Algorithm != algorithm || header.Type != tokenType ||
		header.Critical != nil || header.Base64 != nil {
		return -1
	}
	return slices.IndexFunc(t.keys, func(k signingKey) bool { return k.jwk.ID == header.KeyID })
}
