package httpapi

import (
	"math"
	"net/url"
	"strconv"

	"github.com/supplyhub/supplyhub/internal/errs"
)

const (
	defaultPageSize = 20
	maxPageSize     = 100
)

// Page is one page of a listing. Number starts at 1.
type Page struct{ Number, Size int }

// Offset is how many items stand before the page. It ends at the largest int64, for a page beyond everything.
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

// Envelope is the answer of every listing. Total counts all items that satisfy the filter, not only this page's.
type Envelope[T any] struct {
	Page     int   `json:"page"`
	PageSize int   `json:"pageSize"`
	Total    int64 `json:"total"`
	Data     []T   `json:"data"`
}

// NewEnvelope wraps one page of a listing; no items are [], never null.
func NewEnvelope[T any](p Page, total int64, data []T) Envelope[T] {
	if data == nil {
		data = []T{}
	}
	return Envelope[T]{Page: p.Number, PageSize: p.Size, Total: total, Data: data}
}
