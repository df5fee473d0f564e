package webhook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

func parse(t testing.TB, text string) webhook.Secret {
	t.Helper()
	s, err := webhook.ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The expected signatures were computed by two other implementations of HMAC, openssl's and Python's; the first
// is the example that the Standard Webhooks libraries share.
func TestSign_agrees_with_other_implementations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		secret, id string
		at         int64
		body, want string
	}{
		{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, `{"test": 2432232314}`,
			"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		{"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "msg_a", 1700000000, "",
			"v1,5AK833a2zSkQEQfcN4NY7tpkJOc0bJgcMan9wJbUAY0="},
		{"whsec_AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj6vH4/wYNFBsiKTA3PkVMU1phaG92fYSLkpmgp661vA==", "MSG-9_z",
			1767225600,
			`{"name":"São Paulo"}`, "v1,ooGTBxJv3S4RV1qNyjquMn+ixHGI4ifJTDQmkVqiDvo="},
	} {
		at, secret := time.Unix(c.at, 0), parse(t, c.secret)
		if got := webhook.Sign(c.id, at, []byte(c.body), secret); got != c.want {
			t.Errorf("Sign(%s) = %s, want %s", c.id, got, c.want)
		}
		id, err := webhook.Verify(headers(c.id, c.at, c.want), []byte(c.body), at, secret)
		if id != c.id || err != nil {
			t.Errorf("Verify(%s) = %q, %v", c.id, id, err)
		}
	}
}

func headers(id string, at int64, signature string) http.Header {
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", fmt.Sprint(at))
	h.Set("webhook-signature", signature)
	return h
}

func TestVerify(t *testing.T) {
	t.Parallel()
	const at = 1_700_000_000
	now, body := time.Unix(at, 0), []byte(`{"a":1}`)
	current, previous, foreign := webhook.NewSecret(), webhook.NewSecret(), webhook.NewSecret()
	sign := func(id string, at int64, secrets ...webhook.Secret) http.Header {
		return headers(id, at, webhook.Sign(id, time.Unix(at, 0), body, secrets...))
	}
	with := func(h http.Header, change func(http.Header)) http.Header { change(h); return h }
	good := func() http.Header { return sign("msg_1", at, current) }
	for _, c := range []struct {
		name   string
		header http.Header
		want   error
	}{
		{"signed by the current secret", good(), nil},
		{"signed by the previous secret", sign("msg_1", at, previous), nil},
		{"signed by both during a rotation", sign("msg_1", at, current, previous), nil},
		{"a foreign signature first", sign("msg_1", at, foreign, current), nil},
		{"signatures of other versions next to ours", headers("msg_1", at, "v1a,AAAA v2,? "+good().Get("webhook-signature")),
			nil},
		{"id of 128 characters", sign(strings.Repeat("Z", 128), at, current), nil},
		{"id of every allowed kind", sign("azAZ09_-", at, current), nil},
		{"exactly 5 minutes old", sign("msg_1", at-300, current), nil},
		{"exactly 5 minutes ahead", sign("msg_1", at+300, current), nil},

		{"signed by a foreign secret", sign("msg_1", at, foreign), webhook.ErrSignature},
		{"without a signature", sign("msg_1", at), webhook.ErrSignature},
		{"signed by the zero secret", sign("msg_1", at, webhook.Secret{}), webhook.ErrSignature},
		{"another version only", headers("msg_1", at, "v2"+good().Get("webhook-signature")[2:]), webhook.ErrSignature},
		{"no version", headers("msg_1", at, good().Get("webhook-signature")[3:]), webhook.ErrSignature},
		{"no space between signatures", headers("msg_1", at, good().Get("webhook-signature")+
			good().Get("webhook-signature")), webhook.ErrSignature},
		{"signature of another id", with(good(), func(h http.Header) { h.Set("webhook-id", "msg_2") }), webhook.ErrSignature},
		{"timestamp with a leading zero", with(good(),
			func(h http.Header) { h.Set("webhook-timestamp", "0"+fmt.Sprint(at)) }), webhook.ErrTimestamp},
		{"signature of another time", with(good(), func(h http.Header) { h.Set("webhook-timestamp", fmt.Sprint(at+1)) }),
			webhook.ErrSignature},
		{"cut signature", headers("msg_1", at, good().Get("webhook-signature")[:20]), webhook.ErrSignature},
		{"301 s old", sign("msg_1", at-301, current), webhook.ErrTimestamp},
		{"301 s ahead", sign("msg_1", at+301, current), webhook.ErrTimestamp},
		{"time with a sign", with(good(), func(h http.Header) { h.Set("webhook-timestamp", fmt.Sprintf("+%d", at)) }),
			webhook.ErrTimestamp},
		{"time as a fraction", with(good(), func(h http.Header) { h.Set("webhook-timestamp", fmt.Sprintf("%d.0", at)) }),
			webhook.ErrTimestamp},
		{"time in milliseconds", sign("msg_1", at*1000, current), webhook.ErrTimestamp},
		{"time of int64's end", with(good(), func(h http.Header) { h.Set("webhook-timestamp", "9223372036854775807") }),
			webhook.ErrTimestamp},
		{"no time", with(good(), func(h http.Header) { h.Set("webhook-timestamp", "") }), webhook.ErrTimestamp},
		{"id of 129 characters", sign(strings.Repeat("Z", 129), at, current), webhook.ErrID},
		{"empty id", sign("", at, current), webhook.ErrID},
		{"id with a dot", sign("msg.1", at, current), webhook.ErrID},
		{"id with a space", sign("msg 1", at, current), webhook.ErrID},
		{"id with another letter", sign("msgé", at, current), webhook.ErrID},
		{"id with @ and ` next to the letters", sign("@`", at, current), webhook.ErrID},
		{"no header at all", http.Header{}, webhook.ErrHeaders},
		{"no id", with(good(), func(h http.Header) { h.Del("webhook-id") }), webhook.ErrHeaders},
		{"no signature", with(good(), func(h http.Header) { h.Del("webhook-signature") }), webhook.ErrHeaders},
		{"id twice", with(good(), func(h http.Header) { h.Add("webhook-id", "msg_1") }), webhook.ErrHeaders},
		{"time twice", with(good(), func(h http.Header) { h.Add("webhook-timestamp", fmt.Sprint(at)) }), webhook.ErrHeaders},
		{"signature twice", with(good(), func(h http.Header) { h.Add("webhook-signature", "v1,") }), webhook.ErrHeaders},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			id, err := webhook.Verify(c.header, body, now, current, previous)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if want := c.header.Get("webhook-id"); err == nil && id != want || err != nil && id != "" {
				t.Errorf("id %q", id)
			}
		})
	}
	if _, err := webhook.Verify(good(), []byte(`{"a":2}`), now, current); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("another body: %v", err)
	}
	if _, err := webhook.Verify(good(), body, now); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("no secret: %v", err)
	}
	zero := headers("msg_1", at, "v1,"+strings.Repeat("A", 43)+"=")
	if _, err := webhook.Verify(zero, body, now, webhook.Secret{}); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("zero secret: %v", err)
	}
}

func TestParseSecret(t *testing.T) {
	t.Parallel()
	const bytes24, bytes64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
		"AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj6vH4/wYNFBsiKTA3PkVMU1phaG92fYSLkpmgp661vA=="
	for text, ok := range map[string]bool{
		"whsec_" + bytes24: true, "whsec_" + bytes64: true,
		"": false, "whsec_": false, bytes24: false, "WHSEC_" + bytes24: false, "whsec_" + bytes24[:28]: false,
		"whsec_" + bytes64[:86] + "vLy8": false, "whsec_" + bytes24 + " ": false, " whsec_" + bytes24: false,
		"whsec_" + bytes64[:86]: false, "whsec_" + bytes24[:8] + "\n" + bytes24[8:]: false, "whsec_" +
			strings.ReplaceAll(bytes64, "/", "_"): false,
	} {
		s, err := webhook.ParseSecret(text)
		if (err == nil) != ok {
			t.Errorf("ParseSecret(%q): %v", text, err)
		}
		if err == nil && s.Text() != text {
			t.Errorf("%q comes back as %q", text, s.Text())
		}
		if err != nil && !errors.Is(err, webhook.ErrSecret) {
			t.Errorf("ParseSecret(%q): %v is no ErrSecret", text, err)
		}
	}
}

func TestNewSecret_is_random_and_parses(t *testing.T) {
	t.Parallel()
	a, b := webhook.NewSecret(), webhook.NewSecret()
	if a.Equal(b) || a.Text() == b.Text() {
		t.Error("two new secrets are equal")
	}
	if again := parse(t, a.Text()); !again.Equal(a) {
		t.Error("a secret's text parses to another secret")
	}
	if a.Equal(webhook.Secret{}) || (webhook.Secret{}).Equal(a) || !(webhook.Secret{}).Equal(webhook.Secret{}) {
		t.Error("the zero secret equals only itself")
	}
	if text := (webhook.Secret{}).Text(); text != "" {
		t.Errorf("the zero secret's text is %q", text)
	}
}

func TestSecret_shows_itself_by_Text_alone(t *testing.T) {
	t.Parallel()
	s := webhook.NewSecret()
	key := s.Text()[len("whsec_"):]
	nested := struct{ secrets []webhook.Secret }{[]webhook.Secret{s}}
	var printed []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%T"} {
		printed = append(printed, fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, nested))
	}
	asJSON, err := json.Marshal(map[string]any{"s": s, "list": []webhook.Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "secret", s, "list", []webhook.Secret{s})
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "secret", s, "nested", nested)
	printed = append(printed, string(asJSON), log.String(), s.String())

	raw := secretBytes(t, s)
	for _, text := range printed {
		if strings.Contains(text, key) || strings.Contains(text, fmt.Sprintf("%x", raw)) ||
			strings.Contains(text, strings.Trim(fmt.Sprint(raw), "[]")) ||
			strings.Contains(text, string(raw)) {
			t.Errorf("the secret shows in %s", text)
		}
	}
	if s.String() != "***" || fmt.Sprint(s) != "***" || !strings.Contains(string(asJSON), `"***"`) {
		t.Error("a secret prints as ***")
	}
}
