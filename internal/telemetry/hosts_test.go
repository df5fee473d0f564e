package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/supplyhub/supplyhub/internal/telemetry"
)

func TestGuarded_lets_pages_of_other_sites_open_pages_and_nothing_else(t *testing.T) {
	t.Parallel()
	here := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	api := telemetry.Guarded([]string{"hub.internal"}, "/console", here)
	worker := telemetry.Guarded(nil, "", here)
	for _, test := range []struct {
		method, path, host, site string
		api, worker              bool
	}{
		{"GET", "/livez", "127.0.0.1:9090", "", true, true},
		{"GET", "/livez", "hub.internal", "", true, false},
		{"GET", "/livez", "evil.example", "", false, false},
		{"GET", "/debug/pprof/heap?gc=1", "localhost:9090", "", true, true},
		{"GET", "/debug/pprof/heap?gc=1", "localhost:9090", "none", true, true},
		{"GET", "/debug/pprof/heap?gc=1", "localhost:9090", "same-origin", true, true},
		{"GET", "/debug/pprof/heap?gc=1", "localhost:9090", "cross-site", false, false},
		{"GET", "/debug/pprof/heap?gc=1", "localhost:9090", "same-site", false, false},
		{"GET", "/metrics", "localhost:9090", "cross-site", false, false},
		{"GET", "/livez", "localhost:9090", "cross-site", false, false},
		{"GET", "/", "localhost:9090", "cross-site", false, false},
		{"GET", "/console", "localhost:9090", "cross-site", true, false},
		{"HEAD", "/console", "localhost:9090", "cross-site", true, false},
		{"GET", "/console/requests/sup_1/2?lang=pt", "localhost:9090", "cross-site", true, false},
		{"GET", "/console", "evil.example", "cross-site", false, false},
		{"GET", "/consoles", "localhost:9090", "cross-site", false, false},
		{"GET", "/console/api", "localhost:9090", "cross-site", false, false},
		{"GET", "/console/api/overview", "localhost:9090", "cross-site", false, false},
		{"GET", "/console/%61pi/overview", "localhost:9090", "cross-site", false, false},
		{"POST", "/console/token", "localhost:9090", "cross-site", false, false},
		{"POST", "/console/token", "localhost:9090", "same-site", false, false},
		{"POST", "/console/token", "localhost:9090", "same-origin", true, true},
		{"POST", "/console/token", "localhost:9090", "", true, true},
	} {
		for name, want := range map[string]bool{"api": test.api, "worker": test.worker} {
			r := httptest.NewRequestWithContext(t.Context(), test.method, test.path, nil)
			r.Host = test.host
			if test.site != "" {
				r.Header.Set("Sec-Fetch-Site", test.site)
			}
			w := httptest.NewRecorder()
			map[string]http.Handler{"api": api, "worker": worker}[name].ServeHTTP(w, r)
			if passes := w.Code == http.StatusNoContent; passes != want || !passes && (w.Code != 403 || w.Body.Len() > 0) {
				t.Errorf("%s, %+v: %d %q", name, test, w.Code, w.Body)
			}
		}
	}
}
