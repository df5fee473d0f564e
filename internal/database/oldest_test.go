package database_test

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
)

func TestUntested_is_a_server_that_is_older_than_promised(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"9.6.24": true, "13.23 (Debian 13.23-1)": true, "14.0": false,
		"14.23": false,
		"18.4":  false, "19rc1 (Debian 19~rc1-1)": false, "20devel": false, "": false} {
		if got := database.Untested(version); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}
