package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // the document
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
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

// OpenAPI answers with the OpenAPI document of the running version, compressed for who takes that, and without it for
// who has it.
func OpenAPI(version string) Handler {
	document, err := openAPIDocument(version)
	var compressed bytes.Buffer
	archive := gzip.NewWriter(&compressed)
	_, writeErr := archive.Write(document)
	err = errors.Join(err, writeErr, archive.Close())
	tag := fmt.Sprintf(`W/"%x"`, sha256.Sum256(document)) // weak: the same for both
	return func(c *gin.Context) error {
		if err != nil {
			return err
		}
		content := document
		if takesGzip(c.Request.Header) {
			content = compressed.Bytes()
			c.Header("Content-Encoding", "gzip")
		}
		c.Header("Cache-Control", "public, max-age=300")
		c.Header("Vary", "Accept-Encoding")
		c.Header("Content-Type", "application/json; charset=utf-8")
		c.Header("ETag", tag)
		c.Request.Header.Del("Range") // it comes whole or not at all
		if err := Hold(c, copiedBytes); err != nil {
			return err
		}
		http.ServeContent(c.Writer, c.Request, "", time.Time{}, bytes.NewReader(content))
		return nil
	}
}

// takesGzip reports whether the caller names gzip, with a weight that is not 0 (RFC 9110, 12.5.3).
func takesGzip(header http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(header["Accept-Encoding"], ","), ",") {
		name, parameter, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			weight, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(parameter), "q="), 64)
			return err != nil || weight > 0
		}
	}
	return false
}
