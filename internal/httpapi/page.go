package httpapi

import (
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
)

const (
	defaultPageSize = 20
	maxPageSize     = 100
)

// Page is one page of a listing. Number starts at 1.
type Page struct{ Number, Size int }

// Offset returns how many items are before the page. It ends at the largest int64, for a page beyond everything.
func (p Page) Offset() int64 {
	before, size := int64(p.Number)-1, int64(p.Size)
	if size > 0 && before > math.MaxInt64/size {
		return math.MaxInt64
	}
	return before * size
}

// ParsePage reads page (at least 1, default 1) and pageSize (1 to 100, default 20) and names all that is wrong.
func ParsePage(q url.Values) (Page, []errs.Violation) {
	var violations []errs.Violation
	read := func(name string, fallback, largest int, detail string) int {
		values := q[name]
		if len(values) == 0 {
			return fallback
		}
		if len(values) > 1 {
			violations = append(violations, errs.InParameter(name, "must be given only once"))
			return fallback
		}
		n, err := strconv.Atoi(values[0])
		if err != nil || n < 1 || n > largest || values[0][0] == '+' {
			violations = append(violations, errs.InParameter(name, detail))
			return fallback
		}
		return n
	}
	p := Page{
		Number: read("page", 1, math.MaxInt, "must be an integer of at least 1"),
		Size:   read("pageSize", defaultPageSize, maxPageSize, "must be an integer from 1 to 100"),
	}
	return p, violations
}

// List answers with a page of a listing, whose items come in parts: one part is sent with its length, more are sent as
// they come, so that a large page costs the memory of its largest part. Total counts all items that satisfy the filter.
func List[T any](c *gin.Context, page Page, total int64, parts iter.Seq2[[]T, error]) error {
	const contentType = "application/json; charset=utf-8"
	body := fmt.Appendf(nil, `{"page":%d,"pageSize":%d,"total":%d,"data":[`, page.Number, page.Size, total)
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
				panic(fmt.Errorf("encode an item of a listing: %w", err)) // a defect: every type here can be encoded
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
