package receivers

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/httpapi/bodytest"
)

func FuzzBodiesCostAFewTimesTheirSize(f *testing.F) {
	bodytest.Fuzz(f, bodytest.Of("receiver", (*receiverBody).validate),
		bodytest.Of("rotation", (*rotationBody).validate))
}
