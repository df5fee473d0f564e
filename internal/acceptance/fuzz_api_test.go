package acceptance

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/httpapi/openapitest"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sample"
)

// beyondSchema are the places of rules that a schema cannot say: ranges of durations and days, what must be the same as
// something else, what an answer before gave.
var beyondSchema = regexp.MustCompile(`^(/overlap|/url|/until|/updated_at|/timestamp|/data/request_id|` +
	`/data/estimates.*/(delivery_date|estimate_id)|cursor|wait|referenceDate|filter)$`)

// TestFuzzAPI makes calls by the OpenAPI document: valid, at the edges and hostile ones, of every operation. Each
// answer is checked against the document; none is a 5xx; a call that is valid by the document gets no 400.
// SUPPLYHUB_TEST_CALLS is how many, SUPPLYHUB_TEST_SEED repeats those of an earlier run.
func TestFuzzAPI(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			fuzzAPI(t, stack)
		})
	}
}

func fuzzAPI(t *testing.T, stack apptest.Stack) {
	t.Helper()
	const atOnce = 4
	football := httptest.NewServer(sample.Handler(time.Now))
	t.Cleanup(football.Close)
	h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{
		"PULSE_API_KEY": "pulse-key-of-the-test", "SPORTMONKS_API_TOKEN": "sample", "FALLBACK_API_KEY": "sample",
		"SPORTMONKS_BASE_URL": football.URL + "/sportmonks", "BALLDONTLIE_BASE_URL": football.URL + "/balldontlie",
		"WEBHOOK_RETRY_SCHEDULE": "100ms,100ms"}})
	s := h.Supplier(t, "--scopes", "material-requests,products,webhooks,estimates:write,orders:read")
	tracker := apptest.MustCommand[struct {
		ID     string
		APIKey string `json:"api_key"`
	}](t, h, "tracker", "client", "create", "--name", "Fuzz")
	if _, errOut, code := h.Command(t, "tracker", "load", repository("deployments", "samples", "tracker-records.ndjson"),
		"--client", tracker.ID); code != 0 {
		t.Fatal(errOut)
	}
	credentials := map[string][2]string{"apiKey": {"x-api-key", s.APIKey},
		"bearer":     {"Authorization", "Bearer " + s.AccessToken()},
		"trackerKey": {"svc-public-hub-key", tracker.APIKey}, "pulseKey": {"svc-pulse-key", "pulse-key-of-the-test"}}

	seed, calls := uint64(time.Now().UnixNano()), 400
	if text := os.Getenv("SUPPLYHUB_TEST_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	if n, err := strconv.Atoi(os.Getenv("SUPPLYHUB_TEST_CALLS")); err == nil {
		calls = n
	}
	t.Logf("SUPPLYHUB_TEST_SEED=%d", seed)
	document := openapitest.Validator(t)
	statuses := map[int]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range atOnce {
		maker, err := document.Calls(rand.New(rand.NewPCG(seed, uint64(i))), func(string) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for n := 0; n < calls/atOnce && !t.Failed(); n++ {
				call := maker.Next()
				status := tryCall(t, h, call, credentials[call.Security])
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	t.Logf("answers by status: %v", statuses)
	if statuses[200] == 0 || statuses[400] == 0 || statuses[401] == 0 {
		t.Errorf("too few kinds of answers: %v", statuses)
	}
}

// tryCall makes one call; the hub's client checks the answer against the document.
func tryCall(t *testing.T, h *apptest.Hub, call openapitest.Call, credential [2]string) int {
	t.Helper()
	var body any
	if call.Body != "" {
		body = call.Body
	}
	headers := []string{credential[0], credential[1]}
	for name, values := range call.Header {
		headers = append(headers, name, values[0])
	}
	if credential[0] == "" {
		headers = headers[2:]
	}
	a, err := h.Try(t, h.URL(0, call.Path), call.Method, body, headers...)
	if err != nil {
		t.Errorf("%s %s: %v", call.Method, call.Path, err)
		return 0
	}
	if a.Status >= http.StatusInternalServerError {
		t.Errorf("%s %s is answered %d %s\n%.2000q", call.Method, call.Path, a.Status, a.Body, call.Body)
	}
	if a.Status == http.StatusBadRequest && !call.Hostile && (call.Body == "" || call.Allowed) {
		var problem struct {
			Errors []struct{ Pointer, Parameter string }
		}
		_ = json.Unmarshal(a.Body, &problem) // the document was checked already
		for _, e := range problem.Errors {
			if !beyondSchema.MatchString(e.Pointer + e.Parameter) {
				t.Errorf("%s %s is right by the document and refused: %s\n%.2000q", call.Method, call.Path, a.Body, call.Body)
			}
		}
	}
	return a.Status
}
