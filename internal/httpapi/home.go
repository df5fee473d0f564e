package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// homePage is what a browser that only knows the address sees.
const homePage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>supplyhub</title>
<h1>supplyhub</h1>
<p>Material requests, device trackers and a football scoreboard over HTTP.</p>
<ul>
<li><a href="/docs">The API, described and to be tried out</a></li>
<li><a href="/openapi.json">The same as OpenAPI 3.1</a></li>
</ul>
`

// Home answers the bare address with a page that links to the documentation.
func Home(c *gin.Context) error {
	c.Header("Content-Security-Policy", "default-src 'self'; base-uri 'none'; frame-ancestors 'none'")
	c.Header("X-Content-Type-Options", "nosniff")
	write(c, http.StatusOK, "text/html; charset=utf-8", []byte(homePage))
	return nil
}
