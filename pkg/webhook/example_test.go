package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// A whole receiver: verified, decoded, each call once.
func ExampleHandler() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	receiver := webhook.Handler([]webhook.Secret{secret}, func(ctx context.Context, e webhook.Event) error {
		fmt.Println(webhook.IDFrom(ctx), "brings", len(e.Data.Estimates), "estimates of request", e.Data.RequestID)
		return nil
	})

	body := `{"type":"material_request.estimated","timestamp":"2026-11-20T12:00:00Z","data":{"request_id":123}}`
	now := time.Now()
	for range 2 { // the second time as after a lost answer
		call := httptest.NewRequest(http.MethodPost, "/api/material-requests/123/delivery-estimates", strings.NewReader(body))
		call.Header.Set(webhook.HeaderID, "msg_1")
		call.Header.Set(webhook.HeaderTimestamp, fmt.Sprint(now.Unix()))
		call.Header.Set(webhook.HeaderSignature, webhook.Sign("msg_1", now, []byte(body), secret))
		answer := httptest.NewRecorder()
		receiver.ServeHTTP(answer, call)
		fmt.Println(answer.Code)
	}
	// Output:
	// msg_1 brings 0 estimates of request 123
	// 204
	// 204
}

// By hand: a receiver verifies the raw body before it decodes it, remembers the id, and answers 2xx.
func ExampleVerify() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	receiver := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		id, err := webhook.Verify(r.Header, body, time.Now(), secret)
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var event webhook.Event
		if err := json.Unmarshal(body, &event); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Println(id, event.Type, event.Data.RequestID)
		w.WriteHeader(http.StatusNoContent)
	})

	body := `{"type":"material_request.estimated","data":{"request_id":123}}`
	now := time.Now()
	call := httptest.NewRequest(http.MethodPost, "/api/material-requests/123/delivery-estimates", strings.NewReader(body))
	call.Header.Set(webhook.HeaderID, "msg_1")
	call.Header.Set(webhook.HeaderTimestamp, fmt.Sprint(now.Unix()))
	call.Header.Set(webhook.HeaderSignature, webhook.Sign("msg_1", now, []byte(body), secret))
	answer := httptest.NewRecorder()
	receiver.ServeHTTP(answer, call)
	fmt.Println(answer.Code)
	// Output:
	// msg_1 material_request.estimated 123
	// 204
}

// While a secret is being rotated a call carries one signature of each.
func ExampleSign() {
	current, _ := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	previous, _ := webhook.ParseSecret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX")
	fmt.Println(webhook.Sign("msg_1", time.Unix(1614265330, 0), []byte(`{"a":1}`), current, previous))
	// Output:
	// v1,8WmO9OATkSvjxs+eEJolmK2V9ge32ryGE0kSd4GZiDY= v1,oH5HpTzbOI3hdV1SdOf9HJFZEM+ebORw0skMVi6lToM=
}

func ExampleSecret() {
	secret := webhook.NewSecret()
	fmt.Println(secret, len(secret.Text()))
	// Output: *** 50
}
