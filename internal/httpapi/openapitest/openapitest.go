// Package openapitest checks answers of the service against its OpenAPI document, so that the document cannot say
// what the service does not do.
package openapitest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// base is where the compiler keeps the document; nothing is fetched from there.
const base = "https://supplyhub.invalid/openapi.json"

type object = map[string]any

// V checks answers. It is safe for concurrent use.
type V struct {
	document  object
	schemas   map[string]*jsonschema.Schema // by JSON pointer of every schema of a response
	published any                           // the document as it is, before strict changed it
}

// shared is for all tests of a process: no test changes it.
var shared = sync.OnceValues(newValidator)

// Validator reads the service's document and compiles every schema of its answers.
func Validator(tb testing.TB) *V {
	tb.Helper()
	v, err := shared()
	if err != nil {
		tb.Fatalf("openapitest: %v", err)
	}
	return v
}

func newValidator() (*V, error) {
	raw, err := httpapi.OpenAPIDocument()
	if err != nil {
		return nil, err
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("parse the document: %w", err)
	}
	published, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("parse the document: %w", err)
	}
	v := &V{document: parsed.(object), schemas: map[string]*jsonschema.Schema{}, published: published}
	strict(v.document)
	compiler, err := compilerOf(parsed)
	if err != nil {
		return nil, err
	}
	for _, pointer := range v.schemaPointers() {
		if v.schemas[pointer], err = compiler.Compile(base + "#" + pointer); err != nil {
			return nil, fmt.Errorf("compile %s: %w", pointer, err)
		}
	}
	return v, nil
}

func compilerOf(document any) (*jsonschema.Compiler, error) {
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(base, document); err != nil {
		return nil, fmt.Errorf("add the document: %w", err)
	}
	return compiler, nil
}

// Check fails the test when the answer to method and requestPath is not one that the document describes: route, method,
// status, headers, media type and body. The answer to HEAD is that of GET without its body.
func (v *V) Check(tb testing.TB, method, requestPath string, resp *http.Response, body []byte) {
	tb.Helper()
	for _, fault := range v.faults(method, requestPath, resp, body) {
		tb.Errorf("OpenAPI: %s %s %d: %s", method, requestPath, resp.StatusCode, fault)
	}
}

func (v *V) faults(method, requestPath string, resp *http.Response, body []byte) []string {
	if refusedByServer(resp) {
		return nil
	}
	answer, fault := v.find(method, requestPath, resp.StatusCode)
	if fault != "" {
		return []string{fault}
	}
	return append(v.headerFaults(answer, resp.Header), v.bodyFaults(answer, method, resp.Header, body)...)
}

// refusedByServer reports whether net/http answered by itself, before there was a request: a broken one, or one with
// too many headers.
func refusedByServer(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented:
		return resp.Header.Get("X-Request-Id") == "" && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain")
	default:
		return false
	}
}

// find returns the pointer of the answer's description. Unknown routes have one answer, 404, wrong methods one, 405.
func (v *V) find(method, requestPath string, status int) (pointer, fault string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	path, known := v.route(method, requestPath)
	// The router takes an empty segment for a parameter inside of a path, and not at its end, where the answer is 404.
	plain, _, _ := strings.Cut(requestPath, "?")
	empty := strings.Contains(plain+"/", "//")
	if !known || (empty || crooked.MatchString(plain)) && status == http.StatusNotFound {
		if status != http.StatusNotFound {
			return "", "the route is not in the document"
		}
		return "/components/responses/NotFound", ""
	}
	operation := "/paths/" + escape(path) + "/" + strings.ToLower(method)
	if v.at(operation) == nil || method != strings.ToUpper(method) {
		if status != http.StatusMethodNotAllowed {
			return "", "the method is not in the document"
		}
		return "/components/responses/MethodNotAllowed", ""
	}
	pointer = operation + "/responses/" + strconv.Itoa(status)
	answer := v.at(pointer)
	if answer == nil {
		return "", "the status is not in the document"
	}
	return follow(pointer, answer), ""
}

// crooked is what browsers or proxies may read as a slash or as a dot segment: nothing is at such a path, whatever the
// method.
var crooked = regexp.MustCompile(`(?i)\\|%5c|%2f|/(\.|%2e){1,2}(/|$)`)

// route returns the path template of the document; a plain path wins over one with parameters, and one that has the
// method over one that has not.
func (v *V) route(method, requestPath string) (string, bool) {
	u, err := url.Parse(requestPath)
	if err != nil {
		return "", false
	}
	paths, segments := v.document["paths"].(object), strings.Split(u.EscapedPath(), "/") // a path is what it spells
	found := ""
	for _, template := range slices.Sorted(maps.Keys(paths)) { // a letter comes before the brace
		if !matches(strings.Split(template, "/"), segments) {
			continue
		}
		if paths[template].(object)[strings.ToLower(method)] != nil {
			return template, true
		}
		if found == "" {
			found = template
		}
	}
	return found, found != ""
}

func matches(template, segments []string) bool {
	if len(template) != len(segments) {
		return false
	}
	for i, want := range template {
		if !strings.HasPrefix(want, "{") && want != segments[i] {
			return false
		}
	}
	return true
}

func (v *V) headerFaults(answer string, header http.Header) []string {
	var faults []string
	described, _ := v.at(answer + "/headers").(object)
	for name := range described {
		pointer := follow(answer+"/headers/"+escape(name), described[name])
		values := header.Values(name)
		if len(values) == 0 {
			if required, _ := v.at(pointer + "/required").(bool); required {
				faults = append(faults, "the header "+name+" is missing")
			}
			continue
		}
		for _, value := range values {
			if err := v.schemas[pointer+"/schema"].Validate(v.typed(pointer, value)); err != nil {
				faults = append(faults, fmt.Sprintf("the header %s: %v", name, err))
			}
		}
	}
	return faults
}

// typed returns a header's value as its schema's type.
func (v *V) typed(pointer, value string) any {
	if v.at(pointer+"/schema/type") == "integer" {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return n
		}
	}
	return value
}

func (v *V) bodyFaults(answer, method string, header http.Header, body []byte) []string {
	content, _ := v.at(answer + "/content").(object)
	switch {
	case method == http.MethodHead && len(body) > 0:
		return []string{"the answer to HEAD has a body"}
	case content == nil && len(body) > 0:
		return []string{fmt.Sprintf("there must be no body, but it is %.200q", body)}
	case content == nil:
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return []string{fmt.Sprintf("the content type %q: %v", header.Get("Content-Type"), err)}
	}
	described, ok := describedType(content, mediaType)
	if !ok {
		return []string{"the content type " + mediaType + " is not in the document"}
	}
	if method == http.MethodHead || mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") {
		return nil
	}
	if body, err = plain(header, body); err != nil {
		return []string{fmt.Sprintf("the body is not compressed as it says: %v", err)}
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return []string{fmt.Sprintf("the body is not JSON: %v: %.200q", err, body)}
	}
	schema := v.schemas[follow(answer+"/content/"+escape(described), content[described])+"/schema"]
	if schema == nil {
		return nil
	}
	if err := schema.Validate(value); err != nil {
		return []string{fmt.Sprintf("the body: %v: %.500s", err, body)}
	}
	return nil
}

// plain returns a body without its compression.
func plain(header http.Header, body []byte) ([]byte, error) {
	if header.Get("Content-Encoding") != "gzip" {
		return body, nil
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unzipped)
}

func describedType(content object, mediaType string) (string, bool) {
	for _, described := range []string{mediaType, strings.Split(mediaType, "/")[0] + "/*", "*/*"} {
		if _, ok := content[described]; ok {
			return described, true
		}
	}
	return "", false
}

// Transport checks every answer that passes through next and leaves it whole. It may be used after the test that made
// it has failed, not after it has ended.
func (v *V) Transport(tb testing.TB, next http.RoundTripper) http.RoundTripper {
	return transport{v: v, tb: tb, next: next}
}

type transport struct {
	v    *V
	tb   testing.TB
	next http.RoundTripper
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if closeErr := resp.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if got := resp.Header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.tb.Errorf("%s %s: X-Content-Type-Options is %q", r.Method, r.URL.Path, got)
	}
	t.v.Check(t.tb, r.Method, r.URL.RequestURI(), resp, body)
	return resp, nil
}
