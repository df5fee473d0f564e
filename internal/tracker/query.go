package tracker

import (
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/supplyhub/supplyhub/internal/errs"
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
}

// parseQuery reads page, pageSize and filter. Errors: errs.Invalid with every violation.
func parseQuery(values url.Values) (query, error) {
	page, violations := parsePage(values)
	day, violation := parseFilter(values["filter"])
	if violation != "" {
		violations = append(violations, errs.InParameter("filter", violation))
	}
	if len(violations) > 0 {
		return query{}, errs.InvalidInput("The parameters of the listing are not valid.", violations...)
	}
	return query{page: page, day: day}, nil
}

// parsePage reads page (at least 1, default 1) and pageSize (1 to 100, default 20) and names all that is wrong.
func parsePage(values url.Values) (page, []errs.Violation) {
	var violations []errs.Violation
	read := func(name string, fallback, largest int, detail string) int {
		given := values[name]
		switch {
		case len(given) == 0:
			return fallback
		case len(given) > 1:
			violations = append(violations, errs.InParameter(name, "must be given only once"))
			return fallback
		}
		n, err := strconv.Atoi(given[0])
		if err != nil || n < 1 || n > largest || given[0][0] == '+' {
			violations = append(violations, errs.InParameter(name, detail))
		}
		return n
	}
	p := page{
		number: read("page", 1, math.MaxInt, "must be an integer of at least 1"),
		size:   read("pageSize", defaultPageSize, maxPageSize, "must be an integer from 1 to 100"),
	}
	return p, violations
}

// parseFilter returns the day of the filter, or what is wrong with it.
func parseFilter(given []string) (day, violation string) {
	switch len(given) {
	case 0:
		return "", ""
	case 1:
	default:
		return "", "must be given only once"
	}
	day, ok := strings.CutPrefix(given[0], dateFilter)
	if !ok || len(day) != dateLength {
		return "", "must be written date:eq:YYYY-MM-DD"
	}
	if !validDate([]byte(day)) {
		return "", "must name a day of the calendar, from 0001-01-01 to 9999-12-31"
	}
	return day, ""
}
