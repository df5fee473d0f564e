// Package httpapi is the HTTP frame of the service: how a request is read, how an answer and an error are
// written, what surrounds every handler, and the OpenAPI document. It knows no feature.
package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// Every 401 says what it wants (RFC 9110, 15.5.2): a key, unless the route says otherwise.
const (
	challengeHeader = "WWW-Authenticate"
	keyChallenge    = `ApiKey realm="supplyhub"`
)

// JSON answers with v as application/json. It fails, before anything is written, where v cannot be encoded.
func JSON(c *gin.Context, status int, v any) error {
	body, err := encode(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return Bytes(c, status, "application/json; charset=utf-8", body)
}

// Answer answers with v and status 200, unless there is an error.
func Answer(c *gin.Context, v any, err error) error {
	if err != nil {
		return err
	}
	return JSON(c, http.StatusOK, v)
}

// encode is json.Marshal without the escaping for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Bytes answers with a body that is encoded already. errs.Unavailable, before anything is written: there is no memory
// for it until then.
func Bytes(c *gin.Context, status int, contentType string, body []byte) error {
	h := heldBy(c)
	size := int64(cap(body))
	if h.read {
		size = max(size, h.size) // the request's own body is still there
	}
	if !h.take(c, size) {
		return errs.NewUnavailable(tooMuchHeld, time.Second, nil)
	}
	Shared(c, status, contentType, body)
	return nil
}

// Shared answers with a body that all callers share.
func Shared(c *gin.Context, status int, contentType string, body []byte) {
	header := c.Writer.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body))) // right for HEAD too, whose body net/http drops
	if status == http.StatusUnauthorized && header.Get(challengeHeader) == "" {
		header.Set(challengeHeader, keyChallenge)
	}
	c.Status(status)
	if _, err := c.Writer.Write(body); err != nil && c.Request.Method != http.MethodHead {
		_ = c.Error(fmt.Errorf("write answer: %w", err)).SetType(gin.ErrorTypeRender)
	}
}
