package httpapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the document
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"go.yaml.in/yaml/v4"
)

//go:embed openapi.yaml
var openapiYAML []byte

// OpenAPIDocument returns the service's OpenAPI 3.1 document as JSON, with the version that the file has.
func OpenAPIDocument() ([]byte, error) { return openAPIDocument("") }

// openAPIDocument returns the document as JSON; a version that is not empty replaces the file's.
func openAPIDocument(version string) ([]byte, error) {
	var document map[string]any
	if err := yaml.Unmarshal(openapiYAML, &document); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	if info, ok := document["info"].(map[string]any); ok && version != "" {
		info["version"] = version
	}
	return json.MarshalIndent(document, "", " ")
}

// OpenAPI answers with the OpenAPI document of the running version, and without it for who has it.
func OpenAPI(version string) Handler {
	var tag string
	read := sync.OnceValues(func() ([]byte, error) { // with the first request: it takes 22 ms, which no start needs
		document, err := openAPIDocument(version)
		tag = fmt.Sprintf(`"%x"`, sha256.Sum256(document))
		return document, err
	})
	return func(c *gin.Context) error {
		document, err := read()
		if err != nil {
			return err
		}
		if err := Hold(c, copiedBytes); err != nil {
			return err
		}
		c.Header("Cache-Control", "public, max-age=300")
		c.Header("Content-Type", "application/json; charset=utf-8")
		c.Header("ETag", tag)
		c.Request.Header.Del("Range") // it comes whole or not at all
		http.ServeContent(c.Writer, c.Request, "", time.Time{}, bytes.NewReader(document))
		return nil
	}
}
