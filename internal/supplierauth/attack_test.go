package supplierauth_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

func encoded(v any) string {
	text, _ := json.Marshal(v)
	return base64.RawURLEncoding.EncodeToString(text)
}

// forge signs any header and claims with the service's own key.
type forge struct {
	private ed25519.PrivateKey
	header  map[string]any
	claims  map[string]any
}

func (f forge) token(header, claims map[string]any) string {
	h, c := maps.Clone(f.header), maps.Clone(f.claims)
	for into, changes := range map[*map[string]any]map[string]any{&h: header, &c: claims} {
		for name, value := range changes {
			if (*into)[name] = value; value == nil {
				delete(*into, name)
			}
		}
	}
	text := encoded(h) + "." + encoded(c)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(f.private, []byte(text)))
}

func newForge(t *testing.T) (*replica, forge, *clock) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	clock := newClock()
	r := newReplica(t, databasetest.Open(t, database.SQLite), clock,
		func(d *supplierauth.Deps) { d.SigningKeys = base64.StdEncoding.EncodeToString(der) })
	issued := r.tokens(r.token(r.supplier(nil).APIKey)).AccessToken
	f := forge{private: private}
	for i, into := range []*map[string]any{&f.header, &f.claims} {
		text, err := base64.RawURLEncoding.DecodeString(strings.Split(issued, ".")[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	return r, f, clock
}

func TestBearer_refuses_every_forged_token(t *testing.T) {
	t.Parallel()
	r, f, clock := newForge(t)
	if code := r.ping(f.token(nil, nil)); code != http.StatusOK {
		t.Fatalf("the forge's own token is refused: %d", code)
	}
	type m = map[string]any
	good := f.token(nil, nil)
	parts := strings.Split(good, ".")
	public := f.private.Public().(ed25519.PublicKey)
	hs := encoded(m{"alg": "HS256", "kid": f.header["kid"], "typ": "at+jwt"}) + "." + parts[1]
	mac := hmac.New(sha256.New, public)
	mac.Write([]byte(hs))
	at := func(d time.Duration) int64 { return clock.now().Add(d).Unix() }
	for name, token := range map[string]string{
		"alg none": encoded(m{"alg": "none", "kid": f.header["kid"], "typ": "at+jwt"}) + "." + parts[1] +
			".",
		"alg None with the signature":  f.token(m{"alg": "None"}, nil),
		"HS256 with the public key":    hs + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)),
		"the algorithm of another key": f.token(m{"alg": "ES256"}, nil),
		"an unknown kid":               f.token(m{"kid": "../../etc/passwd"}, nil),
		"no kid":                       f.token(m{"kid": nil}, nil),
		"a kid that is no text":        f.token(m{"kid": []string{"a"}}, nil),
		"crit":                         f.token(m{"crit": []string{"exp"}}, nil),
		"b64":                          f.token(m{"b64": false}, nil),
		"another typ":                  f.token(m{"typ": "JWT"}, nil),
		"no typ":                       f.token(m{"typ": nil}, nil),
		"another issuer":               f.token(nil, m{"iss": "another"}),
		"another audience":             f.token(nil, m{"aud": "another"}),
		"no audience":                  f.token(nil, m{"aud": nil}),
		"no expiry":                    f.token(nil, m{"exp": nil}),
		"an expiry now":                f.token(nil, m{"exp": at(0)}),
		"not valid before a second":    f.token(nil, m{"nbf": at(time.Second)}),
		"no nbf":                       f.token(nil, m{"nbf": nil}),
		"no subject":                   f.token(nil, m{"sub": nil}),
		"a subject with NUL":           f.token(nil, m{"sub": "sup_\x00"}),
		"a subject with a line break":  f.token(nil, m{"sub": "sup_\n"}),
		"a session with NUL":           f.token(nil, m{"sid": "ses_\x00"}),
		"other audiences":              f.token(nil, m{"aud": []string{"a", "b"}}),
		"an audience that is no text":  f.token(nil, m{"aud": []any{"supplyhub-api", 1}}),
		"no session":                   f.token(nil, m{"sid": nil}),
		"changed claims":               parts[0] + "." + encoded(m{"sub": "sup_other"}) + "." + parts[2],
		"a padded signature":           good + "==",
		"a fourth segment":             good + ".x",
		"two segments":                 parts[0] + "." + parts[1],
		"a line break":                 parts[0] + "." + parts[1] + "\n." + parts[2],
		"a cut signature":              good[:len(good)-4],
		"another signature": parts[0] + "." + parts[1] + "." +
			base64.RawURLEncoding.EncodeToString(make([]byte, 64)),
		"too long": f.token(nil, m{"scope": strings.Repeat("x", 5000)}),
		"nothing":  "",
	} {
		w := r.call(http.MethodGet, "/ping", "", "Authorization", "Bearer "+token)
		if w.Code != http.StatusUnauthorized || w.Body.Len() != 0 ||
			!strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: status %d, body %q, challenge %q", name, w.Code, w.Body, w.Header().Get("WWW-Authenticate"))
		}
	}
	for name, headers := range map[string][]string{
		"two headers": {"Authorization", "Bearer " + good, "Authorization", "Bearer " + good},
		"Basic":       {"Authorization", "Basic " + good},
		"no scheme":   {"Authorization", good}, "none": nil, "a refresh token": {"Authorization", "Bearer hub_rt_x"},
	} {
		if w := r.call(http.MethodGet, "/ping", "", headers...); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: status %d", name, w.Code)
		}
	}
	if w := r.call(http.MethodGet, "/ping", "", "Authorization", "bEARER   "+good); w.Code != http.StatusOK {
		t.Errorf("the scheme's letter case counts: %d", w.Code)
	}
	clock.advance(time.Hour)
	if code := r.ping(good); code != http.StatusUnauthorized {
		t.Errorf("a remembered token outlives its expiry: %d", code)
	}
}

func TestBearer_scope(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		orders := func(scopes ...string) int {
			p := r.tokens(r.token(r.supplier(func(n *supplierauth.Supplier) { n.Scopes = scopes }).APIKey))
			w := r.call(http.MethodGet, "/orders", "", "Authorization", "Bearer "+p.AccessToken)
			if w.Code == http.StatusForbidden && w.Body.Len() != 0 {
				t.Errorf("the 403 has a body: %s", w.Body)
			}
			return w.Code
		}
		if code := orders(supplierauth.DefaultScopes()...); code != http.StatusForbidden {
			t.Errorf("without the scope: %d", code)
		}
		if code := orders("orders:read"); code != http.StatusOK {
			t.Errorf("with the scope: %d", code)
		}
	})
}

func TestSigningKeys_rotate_with_overlap(t *testing.T) {
	t.Parallel()
	db, clock := databasetest.Open(t, database.SQLite), newClock()
	former := generated(t, supplierauth.GenerateSigningKey)
	next := generated(t, supplierauth.GenerateSigningKey)
	with := func(keys string) *replica {
		return newReplica(t, db, clock, func(d *supplierauth.Deps) { d.SigningKeys = keys })
	}
	a, b, c := with(former), with(next+" , "+former), with(next)
	key := a.supplier(nil).APIKey
	old := a.tokens(a.token(key)).AccessToken
	if a.ping(old) != 200 || b.ping(old) != 200 || c.ping(old) != 401 {
		t.Error("the former key's token is not valid as long as the key verifies")
	}
	fresh := b.tokens(b.token(key)).AccessToken
	if b.ping(fresh) != 200 || c.ping(fresh) != 200 || a.ping(fresh) != 401 {
		t.Error("the first key does not sign")
	}
	var set struct{ Keys []map[string]string }
	w := b.call(http.MethodGet, "/jwks", "")
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || len(set.Keys) != 2 || set.Keys[0]["alg"] != "EdDSA" ||
		set.Keys[1]["alg"] != "EdDSA" || set.Keys[0]["d"] != "" {
		t.Errorf("the key set is %s", w.Body)
	}
	x, _ := base64.RawURLEncoding.DecodeString(set.Keys[0]["x"])
	parsed, err := jwt.Parse(fresh, func(*jwt.Token) (any, error) { return crypto.PublicKey(ed25519.PublicKey(x)), nil },
		jwt.WithTimeFunc(clock.now))
	if err != nil || parsed.Header["kid"] != set.Keys[0]["kid"] {
		t.Errorf("another library refuses the token by the published key: %v", err)
	}
}

func TestNew_names_the_position_of_a_bad_key_and_not_the_key(t *testing.T) {
	t.Parallel()
	good := generated(t, supplierauth.GenerateSigningKey)
	for name, keys := range map[string]string{"not base64": good + ",secret-text", "not a key": good +
		",c2VjcmV0LXRleHQ=", "twice": good + "," + good, "empty": good + ","} {
		_, err := supplierauth.New(supplierauth.Deps{DB: databasetest.Open(t, database.SQLite), SigningKeys: keys,
			Now: time.Now})
		if err == nil || !strings.Contains(err.Error(), "JWT_SIGNING_KEYS: key 2") ||
			strings.Contains(err.Error(), "secret-text") || strings.Contains(err.Error(), good) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := supplierauth.New(supplierauth.Deps{DB: databasetest.Open(t, database.SQLite), SecretsKeys: "c2hvcnQ=",
		Now: time.Now}); err == nil || !strings.Contains(err.Error(), "SECRETS_KEY: key 1") ||
		strings.Contains(err.Error(), "c2hvcnQ") {
		t.Errorf("a short secrets key: %v", err)
	}
}
