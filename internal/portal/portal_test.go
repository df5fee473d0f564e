package portal_test

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/portal"
)

func TestNew_every_page_parses(t *testing.T) {
	t.Parallel()
	if _, err := portal.New(portal.Deps{}); err != nil {
		t.Fatal(err)
	}
}
