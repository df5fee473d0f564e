package database

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestRoles_have_the_settings_of_serving(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../deployments/postgres-roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	wanted := slices.DeleteFunc(slices.Clone(settings[Serving]), func(s setting) bool { return s.network })
	for _, s := range wanted {
		if want := s.name + " = '" + s.value + "'$s$"; !strings.Contains(string(script), want) {
			t.Errorf("deployments/postgres-roles.sql lacks %s", want)
		}
	}
	if n := strings.Count(string(script), "'$s$"); n != len(wanted) {
		t.Errorf("it has %d settings, serving has %d", n, len(wanted))
	}
}
