package clienttest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
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
	eventSkew  = 5 * time.Minute
)

// violation is a broken rule. Where it is broken is said as the service does, in words of the fake's own.
type violation struct {
	Pointer   *string `json:"pointer,omitempty"`
	Parameter string  `json:"parameter,omitempty"`
	Detail    string  `json:"detail"`
}

// check collects violations of a body or of the parameters.
type check struct{ found []violation }

func (c *check) at(pointer, detail string) {
	c.found = append(c.found, violation{Pointer: &pointer, Detail: detail})
}

func (c *check) in(parameter string) {
	c.found = append(c.found, violation{Parameter: parameter, Detail: "is not valid, or given twice"})
}

// refused returns the answer that names every violation; nil when there is none.
func (c *check) refused(detail string) *answer {
	if len(c.found) == 0 {
		return nil
	}
	slices.SortFunc(c.found, func(a, b violation) int { return cmp.Compare(a.place(), b.place()) })
	return new(refuse(http.StatusBadRequest, detail, c.found...))
}

func (v violation) place() string {
	if v.Pointer != nil {
		return *v.Pointer
	}
	return v.Parameter
}

// shape says what a JSON value must be.
type shape func(c *check, at string, value jsontext.Value)

// members returns the shape of an object with at least the required ones. Unknown ones are ignored.
func members(required string, of map[string]shape) shape {
	return func(c *check, at string, value jsontext.Value) {
		// Strict parsing refuses duplicates, invalid UTF-8 and what follows the value.
		var f map[string]jsontext.Value
		if err := json.Unmarshal(value, &f); err != nil || f == nil {
			if broken, ok := errors.AsType[*jsontext.SyntacticError](err); ok && f != nil {
				at += string(broken.JSONPointer)
			}
			c.at(at, "must be a JSON object without duplicate members, in UTF-8")
			return
		}
		for name, shape := range of {
			switch value, given := f[name]; {
			case given && value.Kind() != 'n':
				shape(c, at+"/"+name, value)
			case slices.Contains(strings.Fields(required), name):
				c.at(at+"/"+name, "is required")
			}
		}
	}
}

// list returns the shape of a list of at least so many.
func list(least int, of shape) shape {
	return func(c *check, at string, value jsontext.Value) {
		var items []jsontext.Value
		if err := json.Unmarshal(value, &items); err != nil || len(items) < least {
			c.at(at, fmt.Sprintf("must be an array of at least %d", least))
		}
		for i, item := range items {
			of(c, at+"/"+strconv.Itoa(i), item)
		}
	}
}

// value returns the shape of what good holds for; a violation says what it must be.
func value(must string, good func(jsontext.Value) bool) shape {
	return func(c *check, at string, value jsontext.Value) {
		if !good(value) {
			c.at(at, "must "+must)
		}
	}
}

func integer(least, most int64) shape {
	return value(fmt.Sprintf("be an integer from %d to %d", least, most), func(v jsontext.Value) bool {
		n, err := strconv.ParseInt(string(v), 10, 64)
		return err == nil && n >= least && n <= most
	})
}

func anyInteger() shape { return integer(math.MinInt64, math.MaxInt64) }

func number(most float64) shape {
	return value(fmt.Sprintf("be a number from 0 to %g", most), func(v jsontext.Value) bool {
		n, err := strconv.ParseFloat(string(v), 64)
		return v.Kind() == '0' && err == nil && n >= 0 && n <= most
	})
}

// text returns the shape of a string without NUL that good holds for.
func text(must string, good func(string) bool) shape {
	return value(must, func(v jsontext.Value) bool {
		var text string
		return json.Unmarshal(v, &text) == nil && !strings.ContainsRune(text, 0) && good(text)
	})
}

// upTo returns the shape of a text of at most so many characters.
func upTo(most int) shape {
	return text(fmt.Sprintf("be a string of at most %d characters", most),
		func(text string) bool { return utf8.RuneCountInString(text) <= most })
}

// name returns the shape of a text of at most 255 characters that is not blank.
func name() shape { return notBlank(maxText) }

func notBlank(most int) shape {
	return text("not be blank", func(text string) bool {
		return strings.TrimSpace(text) != "" && utf8.RuneCountInString(text) <= most
	})
}

func moment() shape { return text("be a date and time by RFC 3339", isMoment) }

func isMoment(text string) bool {
	var at time.Time
	quoted, err := jsontext.AppendQuote(nil, text)
	if err == nil {
		err = json.Unmarshal(quoted, &at) // time.Parse takes more
	}
	return err == nil && at.UTC().Year() >= 1 && at.UTC().Year() <= 9999
}

func isDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

// isDuration holds for those that are not longer.
func isDuration(longest time.Duration) func(string) bool {
	return func(text string) bool {
		d, err := time.ParseDuration(text)
		return err == nil && d >= 0 && d <= longest
	}
}

func oneOf(allowed ...string) shape {
	return text("be one of "+strings.Join(allowed, ", "), isOneOf(allowed...))
}

func isOneOf(allowed ...string) func(string) bool {
	return func(text string) bool { return slices.Contains(allowed, text) }
}

// readBody reads a body of the shape; the answer is nil unless it is refused.
func readBody[T any](r *http.Request, of shape) (body T, refused *answer) {
	if unsupported(r.Header) {
		return body, new(refuse(http.StatusUnsupportedMediaType, "The request body must be JSON in UTF-8, not compressed."))
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(text) > maxBody {
		return body, new(refuse(http.StatusRequestEntityTooLarge, "The request body is over 1 MiB."))
	}
	c := &check{}
	text = whole(text)
	if of(c, "", text); len(c.found) == 0 {
		if err := json.Unmarshal(text, &body); err != nil {
			c.at("", "is not valid")
		}
	}
	return body, c.refused("The request body is not valid.")
}

func unsupported(h http.Header) bool {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return true
	}
	media, parameters, err := mime.ParseMediaType(cmp.Or(h.Get("Content-Type"), "application/json"))
	return err != nil || media != "application/json" ||
		!isOneOf("", "utf-8", "utf8")(strings.ToLower(parameters["charset"]))
}

// whole returns a body with 3.0 and 3e0 written as 3: they are the same number. One that is not JSON stays as it is.
func whole(body []byte) []byte {
	var out bytes.Buffer
	from, to := jsontext.NewDecoder(bytes.NewReader(body)), jsontext.NewEncoder(&out)
	for {
		token, err := from.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return out.Bytes()
		case err == nil && token.Kind() == '0':
			literal := token.String()
			if n, ok := new(big.Rat).SetString(literal); ok && n.IsInt() {
				literal = n.Num().String()
			}
			err = to.WriteValue(jsontext.Value(literal))
		case err == nil:
			err = to.WriteToken(token)
		}
		if err != nil {
			return body
		}
	}
}

// parameters are those of a query, each given once and good.
type parameters map[string]func(string) bool

// read returns the values of the query; the answer is nil unless it is refused.
func (p parameters) read(r *http.Request) (url.Values, *answer) {
	c := &check{}
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		if _, err := url.ParseQuery(pair); err != nil {
			name, _, _ := strings.Cut(pair, "=")
			c.in(name)
		}
	}
	if refused := c.refused("The query string could not be read."); refused != nil {
		return nil, refused
	}
	q := r.URL.Query()
	for name, good := range p {
		if values, given := q[name]; given && (len(values) > 1 || !good(values[0])) {
			c.in(name)
		}
	}
	return q, c.refused("The parameters are not valid.")
}

// placed is an item of a list with its place, which never changes.
type placed[T any] struct {
	place int
	item  T
}

// listing answers with a page of the items that list returns for the parameters, the newest first.
func listing[T any](r *http.Request, filters parameters, list func(q url.Values) []placed[T]) answer {
	filters["limit"] = func(text string) bool {
		n, err := strconv.Atoi(text)
		return err == nil && n >= 1 && n <= 100
	}
	own := r.URL.Query()
	own.Del("limit")
	own.Del("cursor")
	behind := math.MaxInt
	filters["cursor"] = func(cursor string) bool {
		number, _, _ := strings.Cut(cursor, "-")
		var err error
		behind, err = strconv.Atoi(number)
		return err == nil && cursor == cursorBehind(r.URL.Path+"?"+own.Encode(), behind)
	}
	for name := range own {
		if filters[name] == nil {
			filters[name] = func(string) bool { return false } // no parameter of this list
		}
	}
	q, refused := filters.read(r)
	if refused != nil {
		return *refused
	}
	limit, _ := strconv.Atoi(cmp.Or(q.Get("limit"), "20")) // it was checked
	page := struct {
		Data       []T     `json:"data"`
		NextCursor *string `json:"next_cursor"`
	}{Data: []T{}}
	last := 0
	for _, p := range list(q) {
		if p.place >= behind {
			continue
		}
		if len(page.Data) == limit {
			page.NextCursor = new(cursorBehind(r.URL.Path+"?"+own.Encode(), last))
			break
		}
		page.Data, last = append(page.Data, p.item), p.place
	}
	return ok(page)
}

// cursorBehind returns the list's cursor behind a place, with a check of both.
func cursorBehind(list string, place int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", place, list))
	return fmt.Sprintf("%d-%x", place, sum[:8])
}
