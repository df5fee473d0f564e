package tracker

import (
	"net/url"
	"strings"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// dateFilter is what a filter starts with; a day follows.
const dateFilter = "date:eq:"

// query is what a caller asks of a listing.
type query struct {
	page httpapi.Page
	day  string // YYYY-MM-DD; empty: no filter
}

// parseQuery reads page, pageSize and filter. Errors: errs.Invalid with every violation.
func parseQuery(values url.Values) (query, error) {
	page, violations := httpapi.ParsePage(values)
	day, violation := parseFilter(values["filter"])
	if violation != "" {
		violations = append(violations, errs.InParameter("filter", violation))
	}
	if len(violations) > 0 {
		return query{}, errs.InvalidInput("The parameters of the listing are not valid.", violations...)
	}
	return query{page: page, day: day}, nil
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
