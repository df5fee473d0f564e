package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// Home answers the bare address with a page of the documentation's family, which links to it and to the portal.
func Home(version string) Handler {
	page, err := renderDocs(docsPage{"home", "Home"}, version)
	return func(c *gin.Context) error {
		if err != nil {
			return err
		}
		c.Header("Content-Security-Policy", docsPolicy)
		c.Header("Cache-Control", "public, max-age=300")
		Shared(c, http.StatusOK, "text/html; charset=utf-8", page)
		return nil
	}
}
