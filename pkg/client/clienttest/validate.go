package clienttest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxBody    = 1 << 20
	maxText    = 255
	maxComment = 4000
	maxSize    = 1_000_000
)

type violation struct {
	Pointer   *string `json:"pointer,omitempty"`
	Parameter string  `json:"parameter,omitempty"`
	Detail    string  `json:"detail"`
}

// fields are the members of an object. Strict parsing refuses duplicates, invalid UTF-8 and what follows the value.
type fields = map[string]jsontext.Value

// check collects violations of a body or of the parameters.
type check struct{ found []violation }

func (c *check) at(pointer, detail string) {
	c.found = append(c.found, violation{Pointer: &pointer, Detail: detail})
}

func (c *check) in(parameter, detail string) {
	c.found = append(c.found, violation{Parameter: parameter, Detail: detail})
}

// readBody reads the body and checks it by rules; the answer is nil unless it is refused.
func readBody(r *http.Request, rules func(*check, fields)) *answer {
	if detail := unsupported(r.Header); detail != "" {
		a := refuse(http.StatusUnsupportedMediaType, detail)
		return &a
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(text) > maxBody {
		a := refuse(http.StatusRequestEntityTooLarge, "The request body is over 1 MiB.")
		return &a
	}
	c := &check{}
	if f := c.object("", text); f != nil {
		rules(c, f)
	}
	if len(c.found) > 0 {
		a := refuse(http.StatusBadRequest, "The request body is not valid.", c.found...)
		return &a
	}
	return nil
}

func unsupported(h http.Header) string {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return "The request body must not be compressed: Content-Encoding is not supported."
	}
	kind := h.Get("Content-Type")
	if kind == "" {
		return ""
	}
	if media, parameters, err := mime.ParseMediaType(kind); err != nil || media != "application/json" ||
		!slices.Contains([]string{"", "utf-8", "utf8"}, strings.ToLower(parameters["charset"])) {
		return "The request body must be sent as Content-Type: application/json, in UTF-8."
	}
	return ""
}

func (c *check) object(at string, text []byte) fields {
	var f fields
	if err := json.Unmarshal(text, &f); err != nil || f == nil {
		place := at
		if broken, ok := errors.AsType[*jsontext.SyntacticError](err); ok && f != nil {
			place += string(broken.JSONPointer)
		}
		c.at(place, "must be a JSON object without duplicate members, in UTF-8")
		return nil
	}
	return f
}

// member returns the value, nil when it is missing or null.
func (c *check) member(f fields, at, name string, required bool) jsontext.Value {
	value := f[name]
	if value != nil && value.Kind() != 'n' {
		return value
	}
	if required {
		c.at(at+"/"+name, "is required")
	}
	return nil
}

func (c *check) integer(f fields, at, name string, least, most int64, required bool) *int64 {
	value := c.member(f, at, name, required)
	if value == nil {
		return nil
	}
	exact, ok := new(big.Rat).SetString(string(value)) // 3.0 and 3e0 are integers
	switch {
	case value.Kind() != '0' || !ok || !exact.IsInt():
		c.at(at+"/"+name, "must be an integer")
	case !exact.Num().IsInt64() || exact.Num().Int64() < least || exact.Num().Int64() > most:
		c.at(at+"/"+name, fmt.Sprintf("must be an integer from %d to %d", least, most))
	default:
		return new(exact.Num().Int64())
	}
	return nil
}

func (c *check) number(f fields, at, name string, most float64, required bool) *float64 {
	value := c.member(f, at, name, required)
	if value == nil {
		return nil
	}
	n, err := strconv.ParseFloat(string(value), 64)
	if value.Kind() != '0' || err != nil || n < 0 || n > most {
		c.at(at+"/"+name, fmt.Sprintf("must be a number from 0 to %.0f", most))
		return nil
	}
	return &n
}

// text returns a string of any length.
func (c *check) text(f fields, at, name string, required bool) *string {
	value := c.member(f, at, name, required)
	if value == nil {
		return nil
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil || strings.ContainsRune(text, 0) {
		c.at(at+"/"+name, "must be a string without the character NUL")
		return nil
	}
	return &text
}

// name returns a string that is not blank and has at most 255 characters.
func (c *check) name(f fields, at, name string, required bool) string {
	text := c.text(f, at, name, required)
	switch {
	case text == nil:
		return ""
	case strings.TrimSpace(*text) == "":
		c.at(at+"/"+name, "must not be blank")
	case utf8.RuneCountInString(*text) > maxText:
		c.at(at+"/"+name, fmt.Sprintf("must have at most %d characters", maxText))
	}
	return *text
}

func (c *check) moment(f fields, at, name string, required bool) time.Time {
	text := c.text(f, at, name, required)
	if text == nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, *text)
	if err != nil {
		c.at(at+"/"+name, "must be a date and time by RFC 3339")
	}
	return t
}

func (c *check) oneOf(f fields, at, name string, allowed ...string) string {
	text := c.text(f, at, name, true)
	if text == nil {
		return ""
	}
	if !slices.Contains(allowed, *text) {
		c.at(at+"/"+name, "must be one of "+strings.Join(allowed, ", "))
	}
	return *text
}

// parameter returns the one value of a parameter; a second or an empty one is a violation.
func (c *check) parameter(q url.Values, name string) string {
	values, given := q[name]
	switch {
	case !given:
		return ""
	case len(values) > 1:
		c.in(name, "must be given only once")
		return ""
	case values[0] == "":
		c.in(name, "must not be empty")
	}
	return values[0]
}

func (c *check) parameterOf(q url.Values, name string, allowed ...string) string {
	value := c.parameter(q, name)
	if value != "" && !slices.Contains(allowed, value) {
		c.in(name, "must be one of "+strings.Join(allowed, ", "))
	}
	return value
}

func (c *check) parameterTime(q url.Values, name string) time.Time {
	value := c.parameter(q, name)
	if value == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		c.in(name, "must be a date and time by RFC 3339")
	}
	return t
}

func (c *check) parameterInt(q url.Values, name string, fallback, most int) int {
	value := c.parameter(q, name)
	if value == "" {
		return fallback
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		c.in(name, fmt.Sprintf("must be an integer from 1 to %d", most))
		return fallback
	}
	return n
}

// query parses the query string, which must be one.
func query(r *http.Request) (url.Values, *answer) {
	c := &check{}
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		if _, err := url.ParseQuery(pair); err != nil {
			name, _, _ := strings.Cut(pair, "=")
			c.in(name, "is not well encoded")
		}
	}
	if len(c.found) > 0 {
		a := refuse(http.StatusBadRequest, "The query string could not be read.", c.found...)
		return nil, &a
	}
	return r.URL.Query(), nil
}

type pageBody[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"`
}

// placed is an item of a list with its place, which never changes.
type placed[T any] struct {
	place int
	item  T
}

// listing answers with a page of items, the newest first, or with what is wrong with the parameters; c has checked the
// list's own filters.
func listing[T any](c *check, r *http.Request, q url.Values, items []placed[T], filters ...string) answer {
	known := append([]string{"limit", "cursor"}, filters...)
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(known, name) {
			c.in(name, "is no parameter of this list, which has "+strings.Join(known, ", "))
		}
	}
	limit, cursor := c.parameterInt(q, "limit", 20, 100), c.parameter(q, "cursor")
	q.Del("limit")
	q.Del("cursor")
	list := r.URL.Path + "?" + q.Encode()
	if cursor != "" {
		number, _, _ := strings.Cut(cursor, "-")
		behind, err := strconv.Atoi(number)
		if err != nil || cursor != cursorBehind(list, behind) {
			c.in("cursor", "must be the next_cursor of an answer of this list with the same filters")
		}
		items = items[slices.IndexFunc(append(items, placed[T]{place: math.MinInt}),
			func(p placed[T]) bool { return p.place < behind }):]
	}
	if len(c.found) > 0 {
		return refuse(http.StatusBadRequest, "The parameters are not valid.", c.found...)
	}
	page := pageBody[T]{Data: []T{}}
	for _, p := range items[:min(limit, len(items))] {
		page.Data = append(page.Data, p.item)
	}
	if len(items) > limit {
		page.NextCursor = new(cursorBehind(list, items[limit-1].place))
	}
	return ok(page)
}

// cursorBehind returns the list's cursor behind a place, with a check of both.
func cursorBehind(list string, place int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", place, list))
	return fmt.Sprintf("%d-%x", place, sum[:8])
}
