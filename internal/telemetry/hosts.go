package telemetry

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// OnlyHosts answers 403 with an empty body unless the request's Host is an IP address, a loopback name or one of the
// names: a page of another site whose name resolves to it (DNS rebinding) reaches nothing.
func OnlyHosts(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !knownHost(r.Host, names) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
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
