package httpapi

import (
	_ "embed" // the document
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"
	"go.yaml.in/yaml/v4"
)

//go:embed openapi.yaml
var openapiYAML []byte

// OpenAPIDocument returns the service's OpenAPI 3.1 document as JSON; a version that is not empty replaces the file's.
func OpenAPIDocument(version string) ([]byte, error) {
	var document map[string]any
	if err := yaml.Unmarshal(openapiYAML, &document); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	if info, ok := document["info"].(map[string]any); ok && version != "" {
		info["version"] = version
	}
	return json.MarshalIndent(document, "", " ")
}

// OpenAPI answers with the OpenAPI document of the running version.
func OpenAPI(version string) Handler {
	document, err := OpenAPIDocument(version)
	return func(c *gin.Context) error {
		if err != nil {
			return err
		}
		c.Header("Cache-Control", "public, max-age=300")
		Shared(c, http.StatusOK, "application/json; charset=utf-8", document)
		return nil
	}
}
