package httpapi_test

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/httpapi"
)

func TestMoment_is_what_RFC_3339_says_and_no_more(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"2026-11-22T01:00:00Z": true, "2026-11-22T01:00:00.123456789-03:00": true, "0001-01-01T00:00:00Z": true,
		"2026-11-22T1:00:00Z": false, "2026-11-22T01:00:00,5Z": false, "2026-11-22T01:00:00+24:00": false,
		"02026-11-22T01:00:00Z": false, "2026-11-22T01:00:00": false, "2026-02-30T00:00:00Z": false, "2026-11-22": false,
		"0001-01-01T00:00:00+01:00": false, "9999-12-31T23:59:59-01:00": false, "": false, "\"": false, "\xff": false,
	} {
		if at, ok := httpapi.Moment(text); ok != want {
			t.Errorf("%q: %v, %v", text, at, ok)
		}
	}
}
