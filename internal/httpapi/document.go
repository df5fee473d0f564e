package httpapi

import (
	_ "embed" // the document
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/swaggest/swgui/v5/static"
	"github.com/swaggest/swgui/v5emb"
	"go.yaml.in/yaml/v4"

	"github.com/supplyhub/supplyhub/internal/errs"
)

//go:embed openapi.yaml
var openapiYAML []byte

// OpenAPIDocument is the service's OpenAPI 3.1 document as JSON.
var OpenAPIDocument = sync.OnceValues(func() ([]byte, error) {
	var document any
	if err := yaml.Unmarshal(openapiYAML, &document); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	return json.Marshal(document)
})

// OpenAPI answers with the OpenAPI document.
func OpenAPI(c *gin.Context) error {
	document, err := OpenAPIDocument()
	if err != nil {
		return err
	}
	c.Header("Cache-Control", "public, max-age=300")
	write(c, http.StatusOK, "application/json; charset=utf-8", document)
	return nil
}

// docsPolicy keeps the page from loading anything from elsewhere.
const docsPolicy = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Docs shows the OpenAPI document as a page. It serves /docs, and the page's own files at /docs/:file.
func Docs() Handler {
	page := v5emb.New("supplyhub", "/openapi.json", "/docs")
	return func(c *gin.Context) error {
		if file := c.Param("file"); file != "" && !isAsset(file) {
			return errs.New(errs.NotFound, "There is no such resource.")
		}
		c.Header("Content-Security-Policy", docsPolicy)
		c.Request.Header.Del("Range") // the files come whole or not at all
		page.ServeHTTP(c.Writer, c.Request)
		return nil
	}
}

func isAsset(file string) bool {
	for _, name := range []string{file, file + ".gz"} {
		if info, err := fs.Stat(static.FS, name); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}
