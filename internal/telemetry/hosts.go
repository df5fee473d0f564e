package telemetry

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

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
		slices.ContainsFunc(names, func(name string) bool {
			return host != "" &&
				strings.EqualFold(strings.TrimSpace(name), host)
		})
}
