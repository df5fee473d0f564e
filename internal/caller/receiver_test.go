package caller_test

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/caller"
)

func TestCallURL_is_below_an_address_or_the_address_as_it_is_written(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://a.example":                   "https://a.example/api/material-requests/-7/delivery-estimates",
		"https://a.example/x/":                "https://a.example/x/api/material-requests/-7/delivery-estimates",
		"https://a.example/{id}/":             "https://a.example/-7/",
		"https://a.example/x?k=a%2Fb&r={id}":  "https://a.example/x?k=a%2Fb&r=-7",
		"https://a.example/{id}/x%2F?r={id}&": "https://a.example/-7/x%2F?r=-7&",
	} {
		if got := caller.CallURL(address, -7); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestShownURL_has_no_value_of_a_query(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://a.example/x":                    "https://a.example/x",
		"https://a.example/{id}?k=s3cret&r={id}": "https://a.example/{id}?k=…&r=…",
		"https://a.example/{id}?s3cret":          "https://a.example/{id}?…",
		"https://a.example/{id}?a=s3cret=&=s3&":  "https://a.example/{id}?a=…&=…&…",
	} {
		if got := caller.ShownURL(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
