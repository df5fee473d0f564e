package database

import (
	"maps"
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

// A lost process is found between two statements by the server, in a statement and outside of one by the network.
func TestConnections_of_each_kind_have_the_limits_of_a_lost_process(t *testing.T) {
	t.Parallel()
	for name, has := range map[string][]setting{"serving": settings[Serving], "maintenance": settings[Maintenance]} {
		for _, limit := range []string{"idle_in_transaction_session_timeout", "tcp_user_timeout", "tcp_keepalives_idle",
			"tcp_keepalives_interval"} {
			if !slices.ContainsFunc(has, func(s setting) bool { return s.name == limit }) {
				t.Errorf("%s: no %s", name, limit)
			}
		}
	}
}

func TestParameters_of_an_address_are_known_in_any_letter_case(t *testing.T) {
	t.Parallel()
	cfg, err := parse("DATABASE_URL", "postgres://db/x?TimeZone=UTC&DateStyle=German&LOCK_TIMEOUT=7s&timezone=Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	params := cfg.ConnConfig.RuntimeParams
	want := map[string]string{"timezone": "Asia/Tokyo", "datestyle": "German", "lock_timeout": "7s"}
	if !maps.Equal(params, want) {
		t.Errorf("the parameters are %v, want %v", params, want)
	}
	s := newSession(settings[Serving], params, true)
	if !slices.Contains(s.wanted, setting{name: "lock_timeout", value: "7s", given: true}) || len(s.foreign) > 0 {
		t.Errorf("wanted %v, foreign %v", s.wanted, s.foreign)
	}
	if want := len(settings[Serving]) + 2; len(params) != want { // timezone and datestyle are no settings of the profile
		t.Errorf("%d parameters, want %d: %v", len(params), want, params)
	}
}
