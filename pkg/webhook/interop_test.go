package webhook_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// The reference library of the Standard Webhooks project and this package accept each other's calls.
func TestInterop_with_the_reference_library(t *testing.T) {
	t.Parallel()
	for _, body := range []string{estimated, "", `{"name":"São Paulo"}`} {
		secret, previous := webhook.NewSecret(), webhook.NewSecret()
		theirs, err := standardwebhooks.NewWebhook(secret.Text())
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		h := http.Header{}
		h.Set(webhook.HeaderID, "msg_1")
		h.Set(webhook.HeaderTimestamp, fmt.Sprint(now.Unix()))
		h.Set(webhook.HeaderSignature, webhook.Sign("msg_1", now, []byte(body), previous, secret))
		if err := theirs.Verify([]byte(body), h); err != nil {
			t.Errorf("they refuse our call with %q: %v", body, err)
		}
		if err := theirs.Verify([]byte(body+" "), h); err == nil {
			t.Errorf("they accept an altered %q", body)
		}
		signature, err := theirs.Sign("msg_1", now, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		h.Set(webhook.HeaderSignature, signature)
		if _, err := webhook.Verify(h, []byte(body), now, previous, secret); err != nil {
			t.Errorf("we refuse their call with %q: %v", body, err)
		}
	}
}
