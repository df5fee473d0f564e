package webhook_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

func secretBytes(t testing.TB, s webhook.Secret) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Text(), "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Signing the same parts again gives each signature that Verify accepts.
func FuzzVerify(f *testing.F) {
	const at = 1_700_000_000
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		f.Fatal(err)
	}
	now := time.Unix(at, 0)
	f.Add("msg_1", "1700000000", webhook.Sign("msg_1", now, []byte("{}"), secret), []byte("{}"))
	f.Add("msg_1", "1700000300", webhook.Sign("msg_1", now.Add(5*time.Minute), []byte("{}"), webhook.NewSecret(), secret),
		[]byte("{}"))
	f.Add("", "", "", []byte(nil))
	f.Add("msg.1", "-1", "v1, v1,= v1,AAAA", []byte("x"))
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		h := http.Header{}
		h.Set(webhook.HeaderID, id)
		h.Set(webhook.HeaderTimestamp, timestamp)
		h.Set(webhook.HeaderSignature, signature)
		got, err := webhook.Verify(h, body, now, secret)
		if err != nil {
			if got != "" {
				t.Fatalf("refused with %v, yet with the id %q", err, got)
			}
			return
		}
		if got != id {
			t.Fatalf("id %q, want %q", got, id)
		}
		signed := false
		for seconds := int64(at - 300); seconds <= at+300; seconds++ {
			signed = signed || strings.Contains(signature, webhook.Sign(id, time.Unix(seconds, 0), body, secret))
		}
		if !signed {
			t.Fatalf("accepted %q, which was never signed", signature)
		}
	})
}

func FuzzParseSecret(f *testing.F) {
	f.Add("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	f.Add("whsec_")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := webhook.ParseSecret(text); err == nil && s.Text() != text {
			t.Fatalf("%q comes back as %q", text, s.Text())
		}
	})
}

// Whatever a signed body holds, a Handler answers with a status that it documents and handles only an event.
func FuzzHandler(f *testing.F) {
	f.Add([]byte(estimated))
	f.Add([]byte(`{"type":"webhook.test","data":{}}`))
	f.Add([]byte(`{"type":"material_request.estimated","data":[1]}`))
	f.Add([]byte("{"))
	secret := webhook.NewSecret()
	f.Fuzz(func(t *testing.T, body []byte) {
		handled := 0
		h := webhook.Handler([]webhook.Secret{secret}, func(_ context.Context, e webhook.Event) error {
			if handled++; e.Type != webhook.TypeEstimated {
				t.Errorf("an event of type %q was handled", e.Type)
			}
			return nil
		})
		for range 2 {
			switch answer := serve(h, call("m1", string(body), secret)); answer.Code {
			case http.StatusNoContent, http.StatusBadRequest:
			default:
				t.Fatalf("%d for %q", answer.Code, body)
			}
		}
		if handled > 1 {
			t.Fatalf("one id was handled %d times", handled)
		}
	})
}
