// Package acceptance holds the rules of the specification and the contract as tests: over HTTP against the built
// binaries, on both stacks, every answer checked against the OpenAPI document.
package acceptance

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// TestService runs every chapter against one service per stack.
func TestService(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			serviceRules(t, stack, "")
		})
	}
}

// TestPooler runs the chapters through PgBouncer with its own defaults, in both modes: `make test` those that need many
// connections or keep something in one, and `make test-platforms` all.
func TestPooler(t *testing.T) {
	t.Parallel()
	chapters := []string{"MaterialRequest", "Wait", "Webhook", "Commands", "Tracker"}
	if inFull() {
		chapters = nil
	}
	for _, mode := range []string{"session", "transaction"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			serviceRules(t, apptest.Production, mode, chapters...)
		})
	}
}

func serviceRules(t *testing.T, stack apptest.Stack, pooler string, only ...string) {
	t.Helper()
	chapters := map[string]func(*testing.T, *apptest.Hub){
		"Common": commonRules, "Token": tokenRules, "Refresh": refreshRules, "Revoke": revokeRules, "Bearer": bearerRules,
		"MaterialRequest": materialRules, "Listing": listingRules, "DeliveryEstimates": estimatesRules,
		"Webhook": webhookRules, "Selection": selectionRules, "Products": productRules, "Commands": commandRules,
		"Operation": operationRules, "Client": clientRules, "Reestimate": reestimateRules, "Rounds": roundRules,
		"Wait": waitRules, "Tracker": trackerRules,
		"Deliveries": deliveryRules, "Receiver": receiverRules, "Address": addressRules, "SelfService": selfServiceRules,
		"ClientSelfService": clientSelfServiceRules, "Portal": portalRules,
	}
	h := apptest.Start(t, stack, apptest.Options{LeastRights: stack == apptest.Production && pooler != "session",
		Pooler: pooler, Env: map[string]string{
			"WEBHOOK_RETRY_SCHEDULE": "100ms,100ms,100ms", "WEBHOOK_TIMEOUT": "2s",
		}})
	for name, rules := range chapters {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules(t, h)
		})
	}
}

// rule is one sentence of the contract as a parallel subtest.
func rule(t *testing.T, sentence string, test func(t *testing.T)) {
	t.Helper()
	t.Run(sentence, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

type object = map[string]any

var lastID atomic.Int64

// nextID is a request id that no other test uses.
func nextID() int64 { return lastID.Add(1) }

// item is a valid item; changes replace members, a nil change removes one.
func item(changes object) object {
	return with(object{
		"material_id": 10, "material": "Shelf", "sku": "SHELF-90", "width": 90.5, "height": 30, "depth": 25, "quantity": 4,
	}, changes)
}

// remove as a change takes a member away.
type remove struct{}

func with(base, changes object) object {
	for name, value := range changes {
		if _, gone := value.(remove); gone {
			delete(base, name)
			continue
		}
		base[name] = value
	}
	return base
}

// request is a valid material request.
func request(id int64, changes object) object {
	return with(object{"id": id, "shop_code": "SP-001", "materials": []object{item(nil)}}, changes)
}

const (
	requests = "/api/material-requests"
	ping     = "/api/external/ping"
)

func requestPath(id int64) string { return fmt.Sprintf("%s/%d", requests, id) }

// want fails unless the answer has the status.
func want(t *testing.T, a apptest.Answer, status int) {
	t.Helper()
	if a.Status != status {
		t.Fatalf("status %d, want %d: %s", a.Status, status, a.Body)
	}
	if challenge := a.Header.Get("WWW-Authenticate"); status == http.StatusUnauthorized && !strings.HasPrefix(challenge,
		"Bearer") && challenge != `ApiKey realm="supplyhub"` {
		t.Fatalf("the 401 has the challenge %q", challenge)
	}
}

// wantBody fails unless the answer has the status and exactly this JSON.
func wantBody(t *testing.T, a apptest.Answer, status int, body any) {
	t.Helper()
	want(t, a, status)
	if diff := cmp.Diff(normalise(t, body), apptest.Decode[any](t, a)); diff != "" {
		t.Fatalf("body (-want +got):\n%s", diff)
	}
}

func wantEmpty(t *testing.T, a apptest.Answer, status int) {
	t.Helper()
	want(t, a, status)
	if len(a.Body) != 0 {
		t.Fatalf("the body of the %d is not empty: %s", status, a.Body)
	}
}

func normalise(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return apptest.Decode[any](t, apptest.Answer{Body: text})
}

type problem struct {
	Type, Title, Detail string
	Status              int
	Errors              []struct {
		Pointer   *string
		Parameter string
		Detail    string
	}
}

// wantProblem fails unless the answer is a problem document of that status that names exactly these places.
func wantProblem(t *testing.T, a apptest.Answer, status int, places ...string) problem {
	t.Helper()
	want(t, a, status)
	if kind := a.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/problem+json") {
		t.Fatalf("content type %q, want application/problem+json", kind)
	}
	p := apptest.Decode[problem](t, a)
	if p.Status != status || p.Title == "" || p.Type == "" {
		t.Fatalf("problem lacks type, title or status: %s", a.Body)
	}
	got := map[string]int{}
	for _, e := range p.Errors {
		if e.Detail == "" {
			t.Fatalf("a violation has no detail: %s", a.Body)
		}
		if e.Pointer != nil {
			got[*e.Pointer]++
			continue
		}
		got[e.Parameter]++
	}
	expected := map[string]int{}
	for _, place := range places {
		expected[place]++
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Fatalf("violations (-want +got):\n%s\n%s", diff, a.Body)
	}
	return p
}

// submit posts a valid request and answers its id.
func submit(t *testing.T, s *apptest.Supplier, changes object) int64 {
	t.Helper()
	id := nextID()
	wantBody(t, s.Do(t, http.MethodPost, requests, request(id, changes)), http.StatusCreated,
		object{"status": "enqueued", "id": id})
	return id
}

type record struct {
	ID                 int64
	Status             string
	Estimates          []object
	Unavailable        []object
	SelectedEstimateID *string `json:"selected_estimate_id"`
	Failure            *string
	CreatedAt          string `json:"created_at"`
	UpdatedAt          string `json:"updated_at"`
}

// read is the request as GET shows it.
func read(t *testing.T, s *apptest.Supplier, id int64) record {
	t.Helper()
	a := s.Do(t, http.MethodGet, requestPath(id), nil)
	want(t, a, http.StatusOK)
	return apptest.Decode[record](t, a)
}

// becomes waits until the request has the status.
func becomes(t *testing.T, s *apptest.Supplier, id int64, status string) record {
	t.Helper()
	var r record
	wait.Until(t, fmt.Sprintf("request %d becomes %s", id, status), func() bool {
		r = read(t, s, id)
		return r.Status == status
	})
	return r
}

// settled waits until the results of a supplier's attempts are stored, up to 20 ms after a request is estimated: they
// would undo what a test changes in the rows.
func settled(t *testing.T, db *sql.DB, s *apptest.Supplier) {
	t.Helper()
	wait.Until(t, "no worker has a delivery", func() bool {
		var n int
		row := db.QueryRowContext(t.Context(), `SELECT count(*) FROM webhook_deliveries
			WHERE worker IS NOT NULL AND supplier_id = '`+s.ID+`'`)
		return row.Scan(&n) == nil && n == 0
	})
}
