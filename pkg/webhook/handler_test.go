package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const estimated = `{"type":"material_request.estimated","timestamp":"2026-11-20T12:00:00Z",
	"data":{"supplier_id":"sup_1","request_id":123,"estimates":[],"unavailable":[]}}`

// call is a signed call.
func call(id, body string, secrets ...webhook.Secret) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/api/material-requests/123/delivery-estimates", strings.NewReader(body))
	now := time.Now() // read once: a second may end between two looks
	r.Header.Set(webhook.HeaderID, id)
	r.Header.Set(webhook.HeaderTimestamp, fmt.Sprint(now.Unix()))
	r.Header.Set(webhook.HeaderSignature, webhook.Sign(id, now, []byte(body), secrets...))
	return r
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer
}

func TestHandler_answers(t *testing.T) {
	t.Parallel()
	secret, previous, foreign := webhook.NewSecret(), webhook.NewSecret(), webhook.NewSecret()
	for name, c := range map[string]struct {
		request *http.Request
		status  int
		handled bool
	}{
		"a signed event":                       {call("m1", estimated, secret), 204, true},
		"one signed by both during a rotation": {call("m1", estimated, foreign, previous), 204, true},
		"a signature of another party":         {call("m1", estimated, foreign), 401, false},
		"no signature": {httptest.NewRequest(http.MethodPost, "/", strings.NewReader(estimated)),
			401, false},
		"a method other than POST":       {httptest.NewRequest(http.MethodGet, "/", nil), 405, false},
		"a body over the limit":          {call("m1", estimated+strings.Repeat(" ", 2000), secret), 413, false},
		"a signed body that is no JSON":  {call("m1", "{", secret), 400, false},
		"a signed body that is no event": {call("m1", "{}", secret), 400, false},
		"an event without its data":      {call("m1", `{"type":"material_request.estimated"}`, secret), 400, false},
		"a test call": {call("m1",
			`{"type":"webhook.test","timestamp":"2026-11-20T12:00:00Z","data":{}}`, secret), 204, false},
		"an event of a type that is not known": {call("m1", `{"type":"a.new.one","data":[1]}`, secret), 204, false},
		"a known type whose data are malformed": {call("m1", `{"type":"material_request.estimated","data":[1]}`, secret),
			400, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []webhook.Event
			h := webhook.Handler([]webhook.Secret{secret, {}, previous}, func(ctx context.Context, e webhook.Event) error {
				if webhook.IDFrom(ctx) != "m1" {
					t.Errorf("IDFrom = %q", webhook.IDFrom(ctx))
				}
				got = append(got, e)
				return nil
			}, webhook.WithMaxBody(1000))
			answer := serve(h, c.request)
			if answer.Code != c.status || (len(got) == 1) != c.handled {
				t.Fatalf("%d, handled %+v", answer.Code, got)
			}
			if answer.Body.Len() != 0 {
				t.Errorf("the answer has a body: %s", answer.Body)
			}
			if c.handled && (got[0].Type != webhook.TypeEstimated || got[0].Data.RequestID != 123) {
				t.Errorf("got %+v", got[0])
			}
		})
	}
}

func TestHandler_handles_each_id_once(t *testing.T) {
	t.Parallel()
	secret, handled := webhook.NewSecret(), 0
	h := webhook.Handler([]webhook.Secret{secret}, func(context.Context, webhook.Event) error { handled++; return nil })
	for range 3 {
		if answer := serve(h, call("m1", estimated, secret)); answer.Code != 204 {
			t.Fatalf("got %d", answer.Code)
		}
	}
	serve(h, call("m2", estimated, secret))
	if handled != 2 {
		t.Fatalf("two ids were handled %d times", handled)
	}
}

func TestHandler_lets_the_next_attempt_handle_what_failed(t *testing.T) {
	t.Parallel()
	secret, tries := webhook.NewSecret(), 0
	h := webhook.Handler([]webhook.Secret{secret}, func(context.Context, webhook.Event) error {
		if tries++; tries == 1 {
			return errors.New("the database of the receiver is away")
		}
		if tries == 2 {
			panic("a defect")
		}
		return nil
	})
	if answer := serve(h, call("m1", estimated, secret)); answer.Code != 500 {
		t.Fatalf("the failed attempt was answered %d", answer.Code)
	}
	func() {
		defer func() { _ = recover() }()
		serve(h, call("m1", estimated, secret))
	}()
	if answer := serve(h, call("m1", estimated, secret)); answer.Code != 204 || tries != 3 {
		t.Fatalf("the attempt after a panic was answered %d after %d tries", answer.Code, tries)
	}
}

func TestHandler_asks_for_patience_while_the_same_call_is_handled(t *testing.T) {
	t.Parallel()
	secret, begun, finish := webhook.NewSecret(), make(chan struct{}), make(chan struct{})
	h := webhook.Handler([]webhook.Secret{secret}, func(context.Context, webhook.Event) error {
		close(begun)
		<-finish
		return nil
	})
	first := make(chan int)
	go func() { first <- serve(h, call("m1", estimated, secret)).Code }()
	<-begun
	if answer := serve(h, call("m1", estimated, secret)); answer.Code != 503 || answer.Header().Get("Retry-After") == "" {
		t.Errorf("the second call was answered %d, Retry-After %q", answer.Code, answer.Header().Get("Retry-After"))
	}
	close(finish)
	if code := <-first; code != 204 {
		t.Errorf("the first call was answered %d", code)
	}
}

// brokenStore fails where a test has it fail.
type brokenStore struct{ claim, finish error }

func (s brokenStore) Claim(context.Context, string) (webhook.Claim, error) {
	return webhook.Claimed, s.claim
}
func (s brokenStore) Finish(context.Context, string) error { return s.finish }
func (brokenStore) Release(context.Context, string) error  { return nil }

func TestHandler_is_not_silent_about_a_store_that_fails(t *testing.T) {
	t.Parallel()
	secret, down := webhook.NewSecret(), errors.New("down")
	for name, store := range map[string]webhook.Store{"claiming": brokenStore{claim: down},
		"finishing": brokenStore{finish: down}} {
		h := webhook.Handler([]webhook.Secret{secret}, func(context.Context, webhook.Event) error { return nil },
			webhook.WithStore(store))
		if answer := serve(h, call("m1", estimated, secret)); answer.Code != 500 {
			t.Errorf("%s: got %d", name, answer.Code)
		}
	}
}

func TestHandler_without_a_secret_is_a_mistake_of_its_caller(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	webhook.Handler([]webhook.Secret{{}}, func(context.Context, webhook.Event) error { return nil })
}

func TestMemoryStore_keeps_the_last_ones_and_never_forgets_a_claim(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), webhook.NewMemoryStore(2)
	claim := func(id string, want webhook.Claim) {
		t.Helper()
		if got, err := s.Claim(ctx, id); got != want || err != nil {
			t.Errorf("Claim(%s) = %d %v, want %d", id, got, err, want)
		}
	}
	claim("held", webhook.Claimed)
	for _, id := range []string{"a", "b", "c"} {
		claim(id, webhook.Claimed)
		_ = s.Finish(ctx, id)
		_ = s.Finish(ctx, id)
	}
	claim("held", webhook.Busy)
	claim("b", webhook.Handled)
	claim("c", webhook.Handled)
	claim("a", webhook.Claimed)
	_ = s.Release(ctx, "c")
	claim("c", webhook.Handled)
	_ = s.Release(ctx, "held")
	claim("held", webhook.Claimed)
}

func TestMemoryStore_gives_an_id_to_one_of_many(t *testing.T) {
	t.Parallel()
	s, won := webhook.NewMemoryStore(10), make(chan struct{}, 50)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if c, _ := s.Claim(context.Background(), "m1"); c == webhook.Claimed {
				won <- struct{}{}
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Fatalf("%d callers got the claim", len(won))
	}
}
