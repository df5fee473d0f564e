package app

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/config"
)

func TestDoctor_warns_of_a_public_address_without_TLS(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ listen, public, want string }{
		{":8080", "", warning}, {"0.0.0.0:8080", "", warning}, {"127.0.0.1:8080", "", well}, {"[::1]:8080", "", well},
		{":8080", "http://hub.example", warning}, {":8080", "http://10.0.0.1:8080", warning},
		{":8080", "http://localhost:8080", well}, {":8080", "https://hub.example", well},
	} {
		d := &doctor{pipeline: pipeline{cfg: &config.Config{HTTPAddr: test.listen, PublicURL: test.public}}}
		d.sayPublic()
		if got := d.checks[0]; got.Status != test.want || (got.Todo == "") != (test.want == well) {
			t.Errorf("%+v: %+v", test, got)
		}
	}
}
