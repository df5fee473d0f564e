package httpapi

import (
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// Query returns the query string's parameters. One that does not parse is errs.Invalid: net/url drops the pairs that
// it cannot read, and a filter must never vanish.
func Query(c *gin.Context) (url.Values, error) {
	raw := c.Request.URL.RawQuery
	values, err := url.ParseQuery(raw)
	if err == nil {
		return values, nil
	}
	e := errs.Wrap(errs.Invalid, "The query string could not be read.", err)
	for pair := range strings.SplitSeq(raw, "&") {
		if _, err := url.ParseQuery(pair); err != nil {
			name, _, _ := strings.Cut(pair, "=")
			e.Violations = append(e.Violations, errs.InParameter(name,
				"is not well encoded: a % needs two hexadecimal digits, a ; must be written %3B"))
		}
	}
	e.Violations = firstViolations(e.Violations)
	return nil, e
}

// Parameter has read, which says whether it is a right one, read the value of a parameter that may be given once. It
// returns what is wrong; detail says what the value must be. One that is no text is none. Parameters that a route does
// not read may hold anything.
func Parameter(q url.Values, name, detail string, read func(text string) bool) []errs.Violation {
	switch values := q[name]; {
	case len(values) > 1:
		return []errs.Violation{errs.InParameter(name, "must be given only once")}
	case len(values) == 1 && (!read(values[0]) || !IsText(values[0])):
		return []errs.Violation{errs.InParameter(name, detail)}
	default:
		return nil
	}
}

// Natural returns how Parameter reads an integer from 1 to the largest.
func Natural(to *int, largest int) func(string) bool {
	return func(text string) bool {
		n, err := strconv.Atoi(text)
		*to = n
		return err == nil && n >= 1 && n <= largest && text[0] != '+'
	}
}

// IsText reports whether a stored text can be this one.
func IsText(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// PathText returns a text of the path. One that nothing stored can have is errs.NotFound.
func PathText(c *gin.Context, name string) (string, error) {
	text := c.Param(name)
	if !IsText(text) {
		return "", errs.New(errs.NotFound, "There is no such resource.")
	}
	return text, nil
}

// PathInt returns a number of the path. It is spelled in one way only, -?[1-9][0-9]* or 0, within int64; every other
// spelling is errs.NotFound, as there is no resource.
func PathInt(c *gin.Context, name string) (int64, error) {
	text := c.Param(name)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return 0, errs.New(errs.NotFound, "There is no such resource.")
	}
	return n, nil
}

// Moment returns a date-time exactly as RFC 3339 has it, in UTC: package time takes hours of one digit and more
// (go.dev/issue/54580), the decoder of bodies does not. A zone must not carry it out of the years 1 to 9999.
func Moment(text string) (at time.Time, ok bool) {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err == nil {
		err = json.Unmarshal(quoted, &at)
	}
	at = at.UTC()
	return at, err == nil && at.Year() >= 1 && at.Year() <= 9999
}

// MomentTo reads Moment to at, and reports whether it is one.
func MomentTo(at *time.Time) func(string) bool {
	return func(text string) (ok bool) { *at, ok = Moment(text); return ok }
}
