package tracker

import (
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// The parameters of a page. Everything that is wrong with them is reported at once. A page beyond the last is valid
// and empty.

// dateFilter is what a filter starts with; a day follows.
const dateFilter = "date:eq:"

const (
	defaultPageSize = 20
	maxPageSize     = 100
)

// page is one page of a listing. Its number starts at 1.
type page struct{ number, size int }

// offset returns how many items are before the page. It ends at the largest int64, for a page beyond everything.
func (p page) offset() int64 {
	before, size := int64(p.number)-1, int64(p.size)
	if size > 0 && before > math.MaxInt64/size {
		return math.MaxInt64
	}
	return before * size
}

// query is what a caller asks of a listing.
type query struct {
	page page
	day  string // YYYY-MM-DD; empty: no filter

	usual int                  // bytes that the request holds for a usual page
	hold  func(more int) error // makes it hold so many more than these
}

// While a snapshot's records are chosen, a device takes so many bytes: in a list that grows, and first in a map.
const (
	listedBytes  = 24
	mappedBytes  = 64
	placeBytes   = 8    // when the list is complete
	devicesAhead = 1024 // are held at a time
)

// holdDevices lets the caller hold n devices, each of so many bytes.
func (q query) holdDevices(n, each int) error {
	if n%devicesAhead != 0 {
		return nil
	}
	return q.hold((n + devicesAhead) * each)
}

// parseQuery reads page (at least 1, default 1), pageSize (1 to 100, default 20) and filter. Errors: errs.Invalid with
// every violation.
func parseQuery(values url.Values) (query, error) {
	q, detail := query{page: page{1, defaultPageSize}}, ""
	violations := slices.Concat(
		httpapi.Parameter(values, "page", "must be an integer of at least 1", httpapi.Natural(&q.page.number, math.MaxInt)),
		httpapi.Parameter(values, "pageSize", "must be an integer from 1 to 100",
			httpapi.Natural(&q.page.size, maxPageSize)))
	wrong := httpapi.Parameter(values, "filter", "", func(text string) bool {
		q.day, detail = parseFilter(text)
		return detail == ""
	})
	if detail != "" {
		wrong[0].Detail = detail
	}
	if violations = append(violations, wrong...); len(violations) > 0 {
		return query{}, errs.InvalidInput("The parameters of the listing are not valid.", violations...)
	}
	return q, nil
}

// parseFilter returns the day of the filter, or what is wrong with it.
func parseFilter(text string) (day, detail string) {
	day, ok := strings.CutPrefix(text, dateFilter)
	if !ok || len(day) != dateLength {
		return "", "must be written date:eq:YYYY-MM-DD"
	}
	if !validDate([]byte(day)) {
		return "", "must name a day of the calendar, from 0001-01-01 to 9999-12-31"
	}
	return day, ""
}
