package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The meanings of an *Error, for errors.Is. Two errors match none of them: a network failure, which comes as net/http
// returns it, and a success that is not the service's own, such as the page of a firewall.
var (
	ErrInvalid         = errors.New("client: the service refuses the body or the parameters")             // 400, 413, 415
	ErrUnauthorized    = errors.New("client: the API key or the token is not valid")                      // 401
	ErrForbidden       = errors.New("client: the supplier lacks the scope")                               // 403
	ErrNotFound        = errors.New("client: there is no such resource")                                  // 404
	ErrConflict        = errors.New("client: the state of the resource does not allow it")                // 409
	ErrUnprocessable   = errors.New("client: the content breaks a rule of the business")                  // 422
	ErrTooManyRequests = errors.New("client: the supplier sends more requests than the operator allows")  // 429
	ErrUnavailable     = errors.New("client: the service failed or is unavailable; it may work later on") // 5xx
)

// ErrTooLarge is an answer that is not read to its end: it is over 16 MiB, not compressed, or holds more than 262,144
// values. Asking for fewer items at once may help.
var ErrTooLarge = errors.New("client: the answer is larger than the client reads")

// Error is an answer of the service that is not a success.
type Error struct {
	Method, Path string
	Status       int         // the HTTP status
	Type         string      // of the problem document (RFC 9457): a reference to the page that explains it
	Title        string      // of the problem document
	Detail       string      // what went wrong, for people
	Code         string      // invalid_client or invalid_grant at the token and refresh endpoints
	Violations   []Violation // every broken rule of a 400 or 422, at most 1,000
	Duplicates   []Duplicate // the repeated items of a material request's 422
	RequestID    string      // X-Request-Id of the answer: it finds the call in the service's log
	RetryAfter   time.Duration
}

// Violation is one broken rule. Either Pointer or Parameter says where; an empty Pointer is the whole body.
type Violation struct {
	Pointer   string `json:"pointer"`   // JSON pointer into the body
	Parameter string `json:"parameter"` // name of the query parameter
	Detail    string `json:"detail"`
}

// Duplicate is a combination that several items of one material request share.
type Duplicate struct {
	MaterialID        int64  `json:"materialId"`
	MaterialVariantID *int64 `json:"materialVariantId"`
	SKU               string `json:"sku"`
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %d", e.Method, e.Path, e.Status)
	if text := cmp.Or(e.Title, http.StatusText(e.Status)); text != "" {
		b.WriteString(" " + text)
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	for _, v := range e.Violations {
		fmt.Fprintf(&b, " [%s %s]", cmp.Or(v.Parameter, v.Pointer), v.Detail)
	}
	for _, d := range e.Duplicates {
		fmt.Fprintf(&b, " [material %d, sku %q]", d.MaterialID, d.SKU)
	}
	if e.RequestID != "" {
		b.WriteString(" (request id " + e.RequestID + ")")
	}
	return b.String()
}

// kinds are this package's errors by status.
var kinds = map[int]error{
	http.StatusBadRequest: ErrInvalid, http.StatusRequestEntityTooLarge: ErrInvalid,
	http.StatusUnsupportedMediaType: ErrInvalid, http.StatusUnauthorized: ErrUnauthorized,
	http.StatusForbidden: ErrForbidden, http.StatusNotFound: ErrNotFound, http.StatusConflict: ErrConflict,
	http.StatusUnprocessableEntity: ErrUnprocessable, http.StatusTooManyRequests: ErrTooManyRequests,
}

// Is reports whether target is this package's error for the status.
func (e *Error) Is(target error) bool {
	return kinds[e.Status] == target || e.Status >= http.StatusInternalServerError && target == ErrUnavailable
}

// errorBody is every error body of the service in one.
type errorBody struct {
	Type             string      `json:"type"`
	Title            string      `json:"title"`
	Detail           string      `json:"detail"`
	Errors           []Violation `json:"errors"`
	Error            string      `json:"Error"`
	ErrorDescription string      `json:"ErrorDescription"`
	Message          string      `json:"message"`
	Duplicates       []Duplicate `json:"duplicates"`
}

// maxErrorBody is how much of an error's body is read.
const maxErrorBody = 1 << 20

// errorOf reads the answer of a call that did not succeed. A body of any other form, of a proxy for instance, is
// ignored.
func errorOf(method, path string, r *http.Response) *Error {
	e := &Error{
		Method: method, Path: path, Status: r.StatusCode,
		RequestID: r.Header.Get("X-Request-Id"), RetryAfter: retryAfter(r.Header),
	}
	var body errorBody
	if text, err := io.ReadAll(io.LimitReader(r.Body, maxErrorBody)); err == nil && json.Unmarshal(text, &body) == nil {
		e.Type, e.Title, e.Violations, e.Duplicates, e.Code = body.Type, body.Title, body.Errors, body.Duplicates, body.Error
		e.Detail = cmp.Or(body.Detail, body.ErrorDescription, body.Message)
	}
	return e
}

// retryAfter returns the seconds of the header, 0 without one. The service sends no dates.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
