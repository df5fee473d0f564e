package products

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/httpapi/bodytest"
)

func FuzzBodiesCostAFewTimesTheirSize(f *testing.F) {
	bodytest.Fuzz(f, bodytest.Of("sync", (*syncBody).validate))
}
