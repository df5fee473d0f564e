package httpapi

import (
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/errs"
)

const (
	defaultLimit = 20
	maxLimit     = 100
)

// ListQuery are the parameters that every list has.
type ListQuery struct {
	Limit  int    // rows of the page, 1 to 100
	Cursor string // where the page begins; empty: at the newest row
}

// ParseList reads limit (1 to 100, default 20) and cursor, and names all that is wrong. Open says whether the cursor is
// one of the list's own.
func ParseList(q url.Values) (ListQuery, []errs.Violation) {
	list := ListQuery{Limit: defaultLimit}
	var violations []errs.Violation
	switch values := q["limit"]; {
	case len(values) > 1:
		violations = append(violations, errs.InParameter("limit", "must be given only once"))
	case len(values) == 1:
		n, err := strconv.Atoi(values[0])
		if err != nil || n < 1 || n > maxLimit || strconv.Itoa(n) != values[0] {
			violations = append(violations, errs.InParameter("limit", "must be an integer from 1 to 100"))
		}
		list.Limit = n
	}
	switch values := q["cursor"]; {
	case len(values) > 1:
		violations = append(violations, errs.InParameter("cursor", "must be given only once"))
	case len(values) == 1 && values[0] == "":
		violations = append(violations, badCursor())
	case len(values) == 1:
		list.Cursor = values[0]
	}
	return list, violations
}

// UnknownParameters names each parameter that a list with these filters does not have, and those that it has: one that
// was misspelled must not be ignored, nor a list in pages be taken for its first page.
func UnknownParameters(q url.Values, filters ...string) []errs.Violation {
	known := append([]string{"limit", "cursor"}, filters...)
	var violations []errs.Violation
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch {
		case slices.Contains(known, name):
		case slices.Contains([]string{"page", "pagesize", "per_page", "offset"}, strings.ToLower(name)):
			violations = append(violations, errs.InParameter(name,
				"is no parameter of this list: its pages are asked for with limit, and cursor from the next_cursor of the last"))
		default:
			violations = append(violations, errs.InParameter(name,
				"is no parameter of this list, which has "+strings.Join(known, ", ")))
		}
	}
	violations, _ = firstViolations(violations)
	return violations
}

// Open reads the key behind which the page begins. Without a cursor the key stays as it is.
func (q ListQuery) Open(list cursor.List, key ...*int64) []errs.Violation {
	if q.Cursor == "" || list.Open(q.Cursor, key...) {
		return nil
	}
	return []errs.Violation{badCursor()}
}

func badCursor() errs.Violation {
	return errs.InParameter("cursor", "must be the next_cursor of an answer of this list with the same filters")
}

// AnswerList answers with a page of a list and the cursor of the next page; empty: there is none. The items come in
// parts: one part is sent with its length, more are sent as they come, so that a large page costs the memory of its
// largest part.
func AnswerList[T any](c *gin.Context, next string, parts iter.Seq2[[]T, error]) error {
	const contentType = "application/json; charset=utf-8"
	body := []byte(`{"next_cursor":null,"data":[`)
	if next != "" {
		body = fmt.Appendf(nil, `{"next_cursor":%q,"data":[`, next)
	}
	begun, items := false, 0
	for part, err := range parts {
		if err == nil && items > 0 {
			begun, err = true, send(c, contentType, body)
			body = body[:0]
		}
		if err != nil && begun {
			_ = c.Error(err)            // the log shows it
			panic(http.ErrAbortHandler) // a caller must not take a part for the whole
		}
		if err != nil {
			return err
		}
		for _, item := range part {
			text, err := encode(item)
			if err != nil {
				panic(fmt.Errorf("encode an item of a list: %w", err)) // a defect: every type here can be encoded
			}
			if items++; items > 1 {
				body = append(body, ',')
			}
			body = append(body, text...)
		}
	}
	body = append(body, "]}"...)
	if !begun {
		write(c, http.StatusOK, contentType, body)
		return nil
	}
	if err := send(c, contentType, body); err != nil {
		_ = c.Error(err)
	}
	return nil
}

// send passes on what there is of an answer whose length is not known yet.
func send(c *gin.Context, contentType string, text []byte) error {
	c.Writer.Header().Set("Content-Type", contentType)
	if _, err := c.Writer.Write(text); err != nil && c.Request.Method != http.MethodHead {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}
