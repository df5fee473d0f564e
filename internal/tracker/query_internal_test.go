package tracker

import (
	"errors"
	"math"
	"net/url"
	"testing"

	"github.com/supplyhub/supplyhub/internal/errs"
)

func TestPages_of_listings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		page       page
		violations int
	}{
		"": {page{1, 20}, 0}, "page=3&pageSize=100": {page{3, 100}, 0}, "page=0&pageSize=0": {page{}, 2},
		"page=%2B1": {page{}, 1}, "page=1&page=1": {page{}, 1}, "page=": {page{}, 1}, "pageSize=101": {page{}, 1},
		"page=1.0": {page{}, 1}, "page=9223372036854775808": {page{}, 1},
	} {
		values, _ := url.ParseQuery(text)
		got, err := parseQuery(values)
		n := 0
		if invalid, ok := errors.AsType[*errs.Error](err); ok {
			n = len(invalid.Violations)
		}
		if n != want.violations || want.violations == 0 && got.page != want.page {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if got := (page{math.MaxInt64, 100}).offset(); got != math.MaxInt64 {
		t.Errorf("an overflow gives %d", got)
	}
	if got := (page{3, 20}).offset(); got != 40 {
		t.Errorf("page 3 begins at %d", got)
	}
}
