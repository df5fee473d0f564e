package app

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// FuzzPaths_lead_nowhere_else: a link of the service's own name once ended at a stranger's page.
func FuzzPaths_lead_nowhere_else(f *testing.F) {
	for _, path := range []string{
		"/", "/portal", "/portal/", "/portal/sign-in", "/portal/requests/1", "/console", "/console/", "/docs/", "/orders/",
		`/portal/..%2f%5cevil.example%2flogin`, `/portal/requests/..%2f..%2f%5cevil.example`,
		`/console/suppliers/..%2f..%2f%5cevil.example`, `/portal/\evil.example`, `/\evil.example`, `//evil.example/`,
		`/portal//evil.example`, `///evil.example/%2e%2e`, `/%2f/evil.example`, `/%5cevil.example`,
		"/console/../%09/evil.example",
		"/.%2e//evil.example/", "/portal/%2e%2e/", "http://evil.example/portal", "/portal;/evil.example", "/console/%2e/",
		"//evil.example/..", "/console//evil.example/..", "/debug/pprof/..%5c",
		"/portal/%250d%250aLocation:%20http://evil.example",
	} {
		for _, query := range []string{"", "lang=pt", "lang=pt&next=//evil.example", "token=x&lang=en"} {
			f.Add(path, query)
		}
	}
	r := newRig(f)
	f.Fuzz(func(t *testing.T, path, query string) {
		line := "GET " + path + "?" + query + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
		request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line)))
		if err != nil || strings.Count(line, "\n") != 3 {
			return // net/http answers 400
		}
		for name, handler := range map[string]http.Handler{"public": r.engine, "operator's": r.console} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, request.Clone(t.Context()))
			if place := w.Header().Get("Location"); place != "" && !staysHere(place) {
				t.Errorf("%s %q %q redirects to %q", name, path, query, place)
			}
			if isCrooked(path) && w.Code != http.StatusNotFound && w.Code != http.StatusBadRequest {
				t.Errorf("%s %q: %d", name, path, w.Code)
			}
			for _, link := range regexp.MustCompile(`(?:href|action)="([^"#]*)`).FindAllStringSubmatch(w.Body.String(), -1) {
				if !staysHere(strings.ReplaceAll(link[1], "&amp;", "&")) {
					t.Errorf("%s %q %q links to %q", name, path, query, link[1])
				}
			}
		}
	})
}

// staysHere reports whether a browser stays at this origin, as it reads an address (WHATWG's URL standard).
func staysHere(address string) bool {
	address = strings.NewReplacer(`\`, "/", "\t", "", "\n", "", "\r", "").Replace(strings.TrimSpace(address))
	u, err := url.Parse(address)
	base := &url.URL{Scheme: "http", Host: "localhost", Path: "/portal/x"}
	return err == nil && base.ResolveReference(u).Host == "localhost"
}

// isCrooked reports whether a path must be refused, wherever it would go.
func isCrooked(path string) bool {
	path = strings.ToLower(path)
	for _, sign := range []string{`\`, "%5c", "%2f", "/%2e%2e/", "/.%2e/", "/%2e/"} {
		if strings.Contains(path, sign) {
			return true
		}
	}
	return false
}
