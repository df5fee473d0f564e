package app

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/doctor"
)

func TestDoctor_warns_of_a_public_address_without_TLS(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ listen, public, want string }{
		{":8080", "", doctor.Warning}, {"0.0.0.0:8080", "", doctor.Warning}, {"127.0.0.1:8080", "", doctor.Well},
		{"[::1]:8080", "", doctor.Well},
		{":8080", "http://hub.example", doctor.Warning}, {":8080", "http://10.0.0.1:8080", doctor.Warning},
		{":8080", "http://localhost:8080", doctor.Well}, {":8080", "https://hub.example", doctor.Well},
	} {
		d := &examination{Checkup: doctor.New(),
			pipeline: pipeline{cfg: &config.Config{HTTPAddr: test.listen, PublicURL: test.public}}}
		d.public()
		if got := d.Checks[0]; got.Status != test.want || (got.Todo == "") != (test.want == doctor.Well) {
			t.Errorf("%+v: %+v", test, got)
		}
	}
}
