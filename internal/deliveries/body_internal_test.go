package deliveries

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/httpapi/bodytest"
)

func FuzzBodiesCostAFewTimesTheirSize(f *testing.F) {
	bodytest.Fuzz(f, bodytest.Of("recovery", (*Recovery).Validate))
}
