package tracker

import (
	"math"
	"net/url"
	"testing"
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
		got, violations := parsePage(values)
		if len(violations) != want.violations || want.violations == 0 && got != want.page {
			t.Errorf("%q: %+v, %v", text, got, violations)
		}
	}
	if got := (page{math.MaxInt64, 100}).offset(); got != math.MaxInt64 {
		t.Errorf("an overflow gives %d", got)
	}
	if got := (page{3, 20}).offset(); got != 40 {
		t.Errorf("page 3 begins at %d", got)
	}
}
