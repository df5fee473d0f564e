package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readyTimeout is how long /readyz waits for the checks: probes give up soon after.
const readyTimeout = 2 * time.Second

// Degraded marks an error that an operator should see. The process stays in service.
type Degraded struct{ Err error }

// Error returns the text of what it marks.
func (d Degraded) Error() string { return d.Err.Error() }

// Checks asks each dependency by name; nil means that it is well.
type Checks func(ctx context.Context) map[string]error

// AdminHandler serves the operator's listener: /livez (200 with the version as long as the process answers), /readyz
// (200 ready; 200 degraded when a check is Degraded; 503 not ready when one fails that is more; each check by name),
// /metrics for Prometheus and /debug/pprof. It must not be public.
func AdminHandler(registry *prometheus.Registry, ready Checks) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok", "version": Version()})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		status, state, checks := http.StatusOK, "ready", map[string]string{}
		for name, err := range ready(ctx) {
			checks[name] = "ok"
			if err == nil {
				continue
			}
			checks[name] = short(err)
			if _, degraded := errors.AsType[Degraded](err); !degraded {
				status, state = http.StatusServiceUnavailable, "not ready"
			} else if status == http.StatusOK {
				state = "degraded"
			}
		}
		answer(w, status, map[string]any{"status": state, "checks": checks})
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry,
		promhttp.HandlerOpts{Registry: registry, EnableOpenMetrics: true}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a probe that hung up does not matter
}

// secret matches the credentials of a URL and passwords and tokens of connection strings.
var secret = regexp.MustCompile(`(://)[^/\s@]*(@)|` +
	`((?i:password|passwd|pwd|secret|token|api_?key)\s*[=:]\s*)('[^']*'|"[^"]*"|[^\s&,;]+)`)

// WithoutCredentials returns the text without the credentials of addresses and connection strings.
func WithoutCredentials(text string) string { return secret.ReplaceAllString(text, "${1}${3}***${2}") }

// short returns the error as a probe may show it: one piece, without credentials.
func short(err error) string {
	const longest = 400
	text := WithoutCredentials(err.Error())
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return text
}

// Guarded answers 403 with an empty body where a page of another site may have sent the request: its Host must be an IP
// address, a loopback name or one of the names, as a name of that site may resolve to this address (DNS rebinding); and
// what a browser says of where it comes from must be this site, or a person. Only pages may be opened from anywhere:
// those below the path pages, if there are any, without what is below its api.
func Guarded(names []string, pages string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !knownHost(r.Host, names) || !fromHere(r.Header) && !opensPage(r, pages) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fromHere reports whether no browser says that a page of another site made the request.
func fromHere(header http.Header) bool {
	return !slices.ContainsFunc(header.Values("Sec-Fetch-Site"), func(site string) bool {
		return site != "same-origin" && site != "none"
	})
}

// opensPage reports whether the request only opens one of the pages.
func opensPage(r *http.Request, pages string) bool {
	below := func(path string) bool { return r.URL.Path == path || strings.HasPrefix(r.URL.Path, path+"/") }
	return pages != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) && below(pages) &&
		!below(pages+"/api")
}

func knownHost(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		host != "" && slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}
