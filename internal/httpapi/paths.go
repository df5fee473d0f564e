package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"
)

// crooked reports whether others may read a path as another one: browsers take a backslash for a slash, proxies decode
// an encoded slash or dot segment.
func crooked(u *url.URL) bool {
	if strings.Contains(u.Path, `\`) {
		return true
	}
	spelled := strings.ToLower(u.EscapedPath())
	if !strings.Contains(spelled, "%2") {
		return false
	}
	if strings.Contains(spelled, "%2f") {
		return true
	}
	for segment := range strings.SplitSeq(spelled, "/") {
		if dots := strings.ReplaceAll(segment, "%2e", "."); dots != segment && (dots == "." || dots == "..") {
			return true
		}
	}
	return false
}

// straight is the middleware that finds nothing at a crooked path.
func straight(c *gin.Context) {
	if crooked(c.Request.URL) {
		RenderProblem(c, NotFound(c))
	}
}

// Straight writes the X-Request-Id of every answer and finds nothing at a crooked path, for handlers without an engine.
func Straight(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(requestIDHeader, requestID(r.Header))
		if crooked(r.URL) {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
