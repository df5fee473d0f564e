package openapitest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/httpapi/openapitest"
)

// recorder is a test that only remembers whether it failed.
type recorder struct {
	testing.TB
	faults []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

type answer struct {
	method, path string
	status       int
	header       map[string]string
	body         string
}

func (a answer) response() *http.Response {
	header := http.Header{"X-Request-Id": {"r-1"}, "X-Content-Type-Options": {"nosniff"}}
	for name, value := range a.header {
		header.Set(name, value)
		if value == "" {
			header.Del(name)
		}
	}
	return &http.Response{StatusCode: a.status, Header: header, Body: io.NopCloser(strings.NewReader(a.body))}
}

func jsonType(more ...string) map[string]string {
	return headers("application/json; charset=utf-8", more...)
}

func problemType(more ...string) map[string]string {
	return headers("application/problem+json", more...)
}

func headers(contentType string, more ...string) map[string]string {
	h := map[string]string{"Content-Type": contentType}
	for i := 0; i < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

const (
	enqueued = `{"status":"enqueued","id":9223372036854775807}`
	notFound = `{"type":"/docs/errors#not-found","title":"Not Found","status":404,"detail":"There is no such resource."}`
	invalid  = `{"type":"/docs/errors#bad-request","title":"Bad Request","status":400,"detail":"No.",
		"errors":[{"pointer":"","detail":"must be an object"},{"parameter":"page","detail":"x"}]}`
	tokenPair = `{"AccessToken":"a","RefreshToken":"r","TokenType":"Bearer","ExpiresIn":900,"RefreshExpiresIn":1209600}`
	bearer    = "Bearer"
)

func TestCheckAccepts(t *testing.T) {
	t.Parallel()
	v := openapitest.Validator(t)
	for name, a := range map[string]answer{
		"the answer of a route":     {"POST", "/api/material-requests", 201, jsonType(), enqueued},
		"a problem with violations": {"POST", "/api/material-requests", 400, problemType(), invalid},
		"a path parameter and a query": {"GET", "/api/material-requests/12?x=1", 404, problemType(),
			notFound},
		"an empty body": {"GET", "/orders", 403, nil, ""},
		"a required header": {"GET", "/orders", 401,
			map[string]string{"WWW-Authenticate": bearer}, ""},
		"HEAD as GET without a body":                      {"HEAD", "/api/external/ping", 200, jsonType(), ""},
		"404 of an unknown route":                         {"GET", "/nowhere", 404, problemType(), notFound},
		"404 of a wrong method at a backslash":            {"PATCH", "/docs/%22%5C", 404, problemType(), notFound},
		"404 of a wrong method at an encoded slash":       {"PATCH", "/docs/a%2Fb", 404, problemType(), notFound},
		"404 of a wrong method at an encoded dot segment": {"PATCH", "/docs/%2e%2E", 404, problemType(), notFound},
		"405 of a wrong method": {"DELETE", "/orders", 405, problemType("Allow", "GET, HEAD"),
			strings.ReplaceAll(notFound, "404", "405")},
		"a token pair that is not cached": {"POST", "/api/external-auth/token", 200,
			jsonType("Cache-Control", "no-store"), tokenPair},
		"what net/http refuses by itself": {"GET", "/orders", 431,
			headers("text/plain; charset=utf-8", "X-Request-Id", ""), "431"},
		"a file of the documentation's page": {"GET", "/docs/swagger-ui.css", 200,
			headers("text/css", "Content-Security-Policy", "default-src 'self'; x"), "a{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v.Check(t, a.method, a.path, a.response(), []byte(a.body))
		})
	}
}

func TestCheckRejects(t *testing.T) {
	t.Parallel()
	v := openapitest.Validator(t)
	for name, a := range map[string]answer{
		"an unknown status": {"POST", "/api/material-requests", 202, jsonType(), enqueued},
		"a missing field":   {"POST", "/api/material-requests", 201, jsonType(), `{"status":"enqueued"}`},
		"an extra field": {"POST", "/api/material-requests", 201, jsonType(),
			`{"status":"enqueued","id":1,"x":1}`},
		"a wrong state": {"POST", "/api/material-requests", 201, jsonType(),
			`{"status":"queued","id":1}`},
		"a wrong type": {"POST", "/api/material-requests", 201, jsonType(),
			`{"status":"enqueued","id":"1"}`},
		"a wrong format": {"PATCH", "/api/material-requests/1/selected-estimate", 200, jsonType(),
			`{"status":"selected","id":1,"estimate_id":"e","selected_at":"yesterday"}`},
		"a body that is not JSON":     {"POST", "/api/material-requests", 201, jsonType(), `{`},
		"a missing body":              {"POST", "/api/material-requests", 201, jsonType(), ``},
		"another content type":        {"POST", "/api/material-requests", 201, headers("text/plain"), enqueued},
		"no content type":             {"POST", "/api/material-requests", 201, nil, enqueued},
		"a body where there is none":  {"GET", "/orders", 403, problemType(), notFound},
		"a body in an answer to HEAD": {"HEAD", "/openapi.json", 200, jsonType(), `{}`},
		"a missing required header":   {"GET", "/orders", 401, nil, ""},
		"a header of the wrong form":  {"GET", "/orders", 401, map[string]string{"WWW-Authenticate": "Basic"}, ""},
		"a number's header that is a text": {"POST", "/api/external-auth/token", 503, problemType("Retry-After", "soon"),
			strings.ReplaceAll(notFound, "404", "503")},
		"a missing request id": {"POST", "/api/material-requests", 201, jsonType("X-Request-Id", ""), enqueued},
		"a cached token pair":  {"POST", "/api/external-auth/token", 200, jsonType(), tokenPair},
		"a violation with two places": {"POST", "/api/material-requests", 400, problemType(),
			strings.Replace(invalid, `"pointer":""`, `"pointer":"","parameter":"x"`, 1)},
		"another status on an unknown route": {"GET", "/nowhere", 200, jsonType(), `{}`},
		"a 404 that is no problem":           {"GET", "/nowhere", 404, headers("text/plain"), "404"},
		"a wrong method that is answered":    {"DELETE", "/orders", 200, jsonType(), `{}`},
		"a 405 without Allow": {"DELETE", "/orders", 405, problemType(),
			strings.ReplaceAll(notFound, "404", "405")},
		"a method in lower case": {"get", "/orders", 403, nil, ""},
		"our own plain 400":      {"GET", "/orders", 400, headers("text/plain"), "400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{TB: t}
			if v.Check(r, a.method, a.path, a.response(), []byte(a.body)); len(r.faults) == 0 {
				t.Fatal("accepted")
			}
		})
	}
}

type canned struct{ answer }

func (c canned) RoundTrip(*http.Request) (*http.Response, error) { return c.response(), nil }

func TestTransportChecksAndKeepsTheBody(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	for i, body := range []string{enqueued, `{"status":"enqueued"}`} {
		next := canned{answer{"POST", "/api/material-requests", 201, jsonType(), body}}
		client := http.Client{Transport: openapitest.Validator(t).Transport(r, next)}
		resp, err := client.Post("http://hub.invalid/api/material-requests", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		var read bytes.Buffer
		if _, err := read.ReadFrom(resp.Body); err != nil || read.String() != body {
			t.Fatalf("body %q, %v", read.String(), err)
		}
		_ = resp.Body.Close()
		if len(r.faults) != i {
			t.Fatalf("answer %d: faults %q", i, r.faults)
		}
	}
}
