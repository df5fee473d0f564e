package acceptance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/pkg/client/clienttest"
)

// rawCall is a call that none of our clients makes; suppliers with a client of their own do.
type rawCall struct {
	name, method, path, body string
	headers                  []string // names and values in turn; an empty value removes the header
}

// rawCalls are tried on the service and on the fake in this order.
var rawCalls = []rawCall{
	{"no body", "POST", requests, "", nil},
	{"not JSON", "POST", requests, "{", nil},
	{"an array", "POST", requests, "[]", nil},
	{"null", "POST", requests, "null", nil},
	{"an empty object", "POST", requests, "{}", nil},
	{"something behind the value", "POST", requests, rawRequest("1") + "{}", nil},
	{"a duplicate member", "POST", requests, `{"id":1,` + rawRequest("1")[1:], nil},
	{"invalid UTF-8", "POST", requests, strings.Replace(rawRequest("1"), "SP", "\xff", 1), nil},
	{"NUL in a string", "POST", requests, strings.Replace(rawRequest("1"), "SP", `\u0000`, 1), nil},
	{"half of a surrogate pair", "POST", requests, strings.Replace(rawRequest("1"), "SP", `\ud800`, 1), nil},
	{"a name in another case", "POST", requests, strings.Replace(rawRequest("1"), "shop_code", "Shop_Code", 1), nil},
	{"an unknown member", "POST", requests, `{"x":1,` + rawRequest("901")[1:], nil},
	{"the same again", "POST", requests, rawRequest("901"), nil},
	{"the same with another order of members and a null", "POST", requests, `{"comment":null,` + rawRequest("901")[1:],
		nil},
	{"another content under the id", "POST", requests, strings.Replace(rawRequest("901"), "SP", "XX", 1), nil},
	{"an id of zero", "POST", requests, rawRequest("0"), nil},
	{"an id with a fraction", "POST", requests, rawRequest("3.5"), nil},
	{"an id as a whole number", "POST", requests, rawRequest("903.0"), nil},
	{"the same with an exponent", "POST", requests, rawRequest("9.03e2"), nil},
	{"an id far outside 64 bits", "POST", requests, rawRequest("1e400"), nil},
	{"the other name of UTF-8", "POST", requests, rawRequest("903"), []string{"Content-Type",
		`application/json; charset="UTF8"`}},
	{"an id as a string", "POST", requests, rawRequest(`"1"`), nil},
	{"an id outside 64 bits", "POST", requests, rawRequest("9223372036854775808"), nil},
	{"materials of another type", "POST", requests, `{"id":1,"shop_code":"S","materials":{}}`, nil},
	{"no materials", "POST", requests, `{"id":1,"shop_code":"S","materials":[]}`, nil},
	{"items that are none", "POST", requests, `{"id":1,"shop_code":"S","materials":[1,{}]}`, nil},
	{"another media type", "POST", requests, rawRequest("1"), []string{"Content-Type", "text/plain"}},
	{"another charset", "POST", requests, rawRequest("1"), []string{"Content-Type", "application/json; charset=latin1"}},
	{"no media type", "POST", requests, rawRequest("902"), []string{"Content-Type", ""}},
	{"a compressed body", "POST", requests, rawRequest("1"), []string{"Content-Encoding", "gzip"}},
	{"a body over 1 MiB", "POST", requests, `{"comment":"` + strings.Repeat("x", 1<<20) + `"}`, nil},
	{"no token", "GET", requests, "", []string{"Authorization", ""}},
	{"a wrong token", "GET", requests, "", []string{"Authorization", "Bearer x"}},
	{"another scheme", "GET", requests, "", []string{"Authorization", "Basic x"}},
	{"an unknown route", "GET", "/nowhere", "", nil},
	{"a slash at the end", "GET", requests + "/", "", nil},
	{"a wrong method", "DELETE", requests, "", []string{"Authorization", ""}},
	{"an id that is none", "GET", requests + "/abc", "", nil},
	{"an id with a zero in front", "GET", requests + "/0901", "", nil},
	{"an unknown id", "GET", requests + "/777", "", nil},
	{"a wait that is none", "GET", requests + "/901?wait=soon", "", nil},
	{"a wait that is too long", "GET", requests + "/901?wait=61s", "", nil},
	{"parameters of other lists", "GET", requests + "?page=2&pageSize=5&state=failed", "", nil},
	{"a parameter that deliveries do not have", "GET", "/api/webhook-deliveries?state=dead", "", nil},
	{"every parameter wrong", "GET", requests + "?limit=0&cursor=x&status=lost", "", nil},
	{"parameters given twice", "GET", requests + "?limit=1&limit=2&cursor=x&cursor=x&status=failed&status=failed", "",
		nil},
	{"a query that does not parse", "GET", requests + "?limit=%zz", "", nil},
	{"a selection without its member", "PATCH", requests + "/901/selected-estimate", "{}", nil},
	{"a selection of an unknown request", "PATCH", requests + "/777/selected-estimate", `{"estimate_id":"x"}`, nil},
	{"a re-estimate of an unknown request", "POST", requests + "/777/re-estimate", "", nil},
	{"orders without the scope", "GET", "/orders", "", nil},
	{"estimates without the scope", "POST", requests + "/901/delivery-estimates", "{}", nil},
	{"a product without anything", "POST", "/api/products/sync", "{}", nil},
	{"a product with an unknown action", "POST", "/api/products/sync", `{"action":"x","product":{"sku":"A"}}`, nil},
	{"an upsert without its members", "POST", "/api/products/sync", `{"action":"upsert","product":{"sku":" "}}`, nil},
	{"a product's wrong members", "POST", "/api/products/sync",
		`{"action":"upsert","updated_at":"x","product":{"sku":"A","material_id":"1","material":"M",
			"width":-1,"weight_kg":-1,"production_days":-1}}`, nil},
	{"an unknown product", "POST", "/api/products/sync", `{"action":"deactivate","product":{"sku":"A"}}`, nil},
	{"deliveries by parameters that are all wrong", "GET", deliveriesPath +
		"?status=lost&request_id=01&since=yesterday&until=2026-11-21&cursor=x&limit=101", "", nil},
	{"deliveries by parameters given twice", "GET", deliveriesPath +
		"?status=dead&status=dead&request_id=1&request_id=1&since=" + aMoment + "&since=" + aMoment, "", nil},
	{"deliveries by empty parameters", "GET", deliveriesPath + "?status=&request_id=&since=&until=&cursor=&limit=", "",
		nil},
	{"deliveries by good parameters", "GET", deliveriesPath + "?status=dead&request_id=1&since=" + aMoment + "&until=" +
		aMoment + "&limit=100", "", nil},
	{"deliveries since the first moment", "GET", deliveriesPath + "?since=0001-01-01T00:00:00Z", "", nil},
	{"deliveries since one before it", "GET", deliveriesPath + "?since=0000-12-31T23:59:59Z", "", nil},
	{"an unknown delivery", "GET", deliveriesPath + "/msg_x", "", nil},
	{"a redelivery of an unknown one", "POST", deliveriesPath + "/msg_x/redeliver", "", nil},
	{"a recovery without anything", "POST", deliveriesPath + "/redeliver", "{}", nil},
	{"a recovery without a body", "POST", deliveriesPath + "/redeliver", "", nil},
	{"a recovery of what is pending", "POST", deliveriesPath + "/redeliver", `{"status":"pending","since":"` + aMoment +
		`"}`, nil},
	{"a recovery by wrong values", "POST", deliveriesPath + "/redeliver", `{"status":1,"since":"now","until":2}`, nil},
	{"a recovery that ends before it begins", "POST", deliveriesPath + "/redeliver", `{"status":"dead","since":"` +
		aMoment + `","until":"2000-01-01T00:00:00Z"}`, nil},
	{"a recovery of nothing", "POST", deliveriesPath + "/redeliver", `{"status":"dead","since":"` + aMoment +
		`","until":null}`, nil},
	{"a recovery since the first moment", "POST", deliveriesPath + "/redeliver",
		`{"status":"dead","since":"0001-01-01T00:00:00Z"}`, nil},
	{"a recovery without a beginning", "POST", deliveriesPath + "/redeliver", `{"status":"undelivered"}`, nil},
	{"a receiver without its member", "PUT", receiverPath, "{}", nil},
	{"a receiver that is a number", "PUT", receiverPath, `{"url":7}`, nil},
	{"a receiver that is empty", "PUT", receiverPath, `{"url":""}`, nil},
	{"a receiver of another scheme", "PUT", receiverPath, `{"url":"ftp://x"}`, nil},
	{"a receiver with a user", "PUT", receiverPath, `{"url":"https://u:p@example.com"}`, nil},
	{"a receiver with a query", "PUT", receiverPath, `{"url":"https://example.com?q"}`, nil},
	{"a receiver with an empty query", "PUT", receiverPath, `{"url":"https://x.example/?"}`, nil},
	{"a receiver with another place", "PUT", receiverPath, `{"url":"https://x.example/{ID}"}`, nil},
	{"a receiver with half a place", "PUT", receiverPath, `{"url":"https://x.example/{id}}"}`, nil},
	{"a receiver that is a call", "PUT", receiverPath, `{"url":"https://x.example/delivery-estimates/"}`, nil},
	{"a receiver that is too long", "PUT", receiverPath, `{"url":"https://x.example/` + strings.Repeat("x", 2048) + `"}`,
		nil},
	{"a receiver with a fragment", "PUT", receiverPath, `{"url":"https://example.com#f"}`, nil},
	{"a receiver without a host", "PUT", receiverPath, `{"url":"https://"}`, nil},
	{"a receiver with a port that is none", "PUT", receiverPath, `{"url":"https://example.com:0"}`, nil},
	{"a pause without a receiver", "POST", receiverPath + "/pause", "", nil},
	{"a resume without a receiver", "POST", receiverPath + "/resume", "", nil},
	{"a test without a receiver", "POST", receiverPath + "/test", "", nil},
	{"a rotation without a body", "POST", receiverPath + "/rotate-secret", "", nil},
	{"a rotation with an overlap of null", "POST", receiverPath + "/rotate-secret", `{"overlap":null}`, nil},
	{"a rotation with too long an overlap", "POST", receiverPath + "/rotate-secret", `{"overlap":"168h1s"}`, nil},
	{"a rotation with a number", "POST", receiverPath + "/rotate-secret", `{"overlap":24}`, nil},
	{"a rotation with an empty overlap", "POST", receiverPath + "/rotate-secret", `{"overlap":""}`, nil},
	{"a rotation that is no object", "POST", receiverPath + "/rotate-secret", `[]`, nil},
	{"the removal of no receiver", "DELETE", receiverPath, "", nil},
	{"a wrong method at the receiver", "PATCH", receiverPath, "", nil},
	{"a wrong method at the recovery", "PUT", deliveriesPath + "/redeliver", "", nil},
	{"event types", "GET", "/api/webhook-event-types", "", nil},
	{"deliveries without a token", "GET", deliveriesPath, "", []string{"Authorization", ""}},
	{"a link into the portal without a token", "POST", portalSessions, "", []string{"Authorization", ""}},
	{"a link into the portal", "POST", portalSessions, "", nil},
	{"no API key", "POST", tokenPath, "", nil},
	{"a wrong API key", "POST", tokenPath, "", []string{"X-Api-Key", "hub_sk_x"}},
	{"an unknown refresh token", "POST", refreshPath, `{"refreshToken":"x"}`, nil},
	{"a refresh without a token", "POST", refreshPath, `{}`, nil},
	{"a refresh that is no JSON", "POST", refreshPath, `{`, nil},
	{"a refresh of another media type", "POST", refreshPath, `{}`, []string{"Content-Type", "text/plain"}},
	{"a revoke of nothing", "POST", revokePath, `{`, nil},
}

const aMoment = "2026-11-21T12:00:00Z"

func rawRequest(id string) string {
	return `{"id":` + id +
		`,"shop_code":"SP","materials":[{"material_id":1,"material":"M","sku":"A","width":1,"height":1,"quantity":1}]}`
}

// rawAnswer is what must be the same at both: status, form of the body, the places of the violations, headers that say
// what to do.
type rawAnswer struct {
	Status       int
	Type         string
	Problem      string
	Places       []string
	Authenticate string
	Allow        []string
}

func TestClienttest_refuses_what_the_service_refuses(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	s, fake := h.Supplier(t), clienttest.Start(t, clienttest.Config{})
	fakeToken := tokenOf(t, fake)
	for _, c := range rawCalls {
		service := try(t, h.URL(0, ""), s.AccessToken(), c)
		imitation := try(t, fake.URL, fakeToken, c)
		if diff := cmp.Diff(service, imitation); diff != "" {
			t.Errorf("%s (-service +fake):\n%s", c.name, diff)
		}
		fake.Wait()
	}
}

func tokenOf(t *testing.T, fake *clienttest.Server) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fake.URL+tokenPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", fake.APIKey)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var pair apptest.Tokens
	if err := json.NewDecoder(response.Body).Decode(&pair); err != nil {
		t.Fatal(err)
	}
	return pair.AccessToken
}

func try(t *testing.T, base, token string, c rawCall) rawAnswer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), c.method, base+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(c.headers); i += 2 {
		if r.Header.Set(c.headers[i], c.headers[i+1]); c.headers[i+1] == "" {
			r.Header.Del(c.headers[i])
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	a := rawAnswer{Status: response.StatusCode, Type: response.Header.Get("Content-Type"),
		Authenticate: response.Header.Get("WWW-Authenticate"), Allow: strings.Split(response.Header.Get("Allow"), ", ")}
	slices.Sort(a.Allow)
	var p problem
	if len(body) > 0 && a.Status >= 400 {
		if err := json.Unmarshal(body, &p); err != nil {
			t.Fatalf("%s: %v: %s", c.name, err, body)
		}
	}
	a.Problem = p.Type
	for _, e := range p.Errors {
		if e.Pointer != nil {
			a.Places = append(a.Places, fmt.Sprintf("pointer %q", *e.Pointer))
			continue
		}
		a.Places = append(a.Places, "parameter "+e.Parameter)
	}
	slices.Sort(a.Places)
	return a
}
