package httpapi

import (
	"fmt"
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
	violations := Parameter(q, "limit", "must be an integer from 1 to 100", func(text string) bool {
		return Natural(&list.Limit, maxLimit)(text) && strconv.Itoa(list.Limit) == text
	})
	violations = append(violations, Parameter(q, "cursor", badCursor().Detail, func(text string) bool {
		if IsText(text) { // else it is refused already
			list.Cursor = text
		}
		return text != ""
	})...)
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
	return firstViolations(violations)
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

// Part is some items of a list that are read together, and the bytes of their texts, at most.
type Part[T any] struct {
	Size int64
	Read func() ([]T, error)
}

// AnswerList answers with a page of a list and the cursor of the next page; empty: there is none.
func AnswerList[T any](c *gin.Context, next string, parts ...Part[T]) error {
	head := map[string]*string{"next_cursor": nil}
	if next != "" {
		head["next_cursor"] = &next
	}
	return AnswerParts(c, head, "data", parts...)
}

// AnswerParts answers with head, an object with members, and the member of that name behind them, a list whose items
// come in parts: one part is sent with its length, more are sent as they come, so that a large answer costs the memory
// of its largest part. That is granted before a part is read, and only the part's text is held while it is sent.
func AnswerParts[T any](c *gin.Context, head any, name string, parts ...Part[T]) error {
	const contentType = "application/json; charset=utf-8"
	body, err := encode(head)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	body, items := fmt.Appendf(body[:len(body)-1], `,%q:[`, name), 0
	for i, part := range parts {
		n, err := appendPart(c, &body, items > 0, part)
		if items += n; err == nil && i < len(parts)-1 {
			c.Writer.Header().Set("Content-Type", contentType)
			err = send(c, &body)
		}
		if err != nil {
			return brokenOff(c, err)
		}
	}
	body = append(body, "]}"...)
	if len(parts) < 2 {
		return Bytes(c, http.StatusOK, contentType, body)
	}
	if err := send(c, &body); err != nil {
		return brokenOff(c, err)
	}
	return nil
}

// brokenOff ends an answer that has begun with its connection: a caller must not take a part for the whole. It returns
// the error of one that has not begun.
func brokenOff(c *gin.Context, err error) error {
	if c.Writer.Written() {
		_ = c.Error(err) // the log shows it
		panic(http.ErrAbortHandler)
	}
	return err
}

// appendPart appends the items of a part, and returns how many these were. more: items came before.
func appendPart[T any](c *gin.Context, body *[]byte, more bool, part Part[T]) (n int, err error) {
	if err := HoldText(c, part.Size); err != nil {
		return 0, err
	}
	items, err := part.Read()
	if err != nil {
		return 0, err
	}
	for i, item := range items {
		text, err := encode(item)
		if err != nil {
			panic(fmt.Errorf("encode an item of a list: %w", err)) // a defect: every type here can be encoded
		}
		if more || i > 0 {
			*body = append(*body, ',')
		}
		*body = append(*body, text...)
	}
	return len(items), nil
}

// send passes on what there is of an answer whose length is not known yet.
func send(c *gin.Context, body *[]byte) error {
	if err := Hold(c, int64(cap(*body))); err != nil {
		return err
	}
	_, err := c.Writer.Write(*body)
	if *body = nil; err != nil && c.Request.Method != http.MethodHead {
		return fmt.Errorf("write answer: %w", err)
	}
	return Hold(c, 0)
}
