package materials

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi/bodytest"
)

// FuzzBodiesCostAFewTimesTheirSize: a body of 0.9 MB once allocated 6.7 GB while its violations were named.
func FuzzBodiesCostAFewTimesTheirSize(f *testing.F) {
	bodytest.Fuzz(f, bodytest.Of("request", (*requestBody).validate), bodytest.Of("selection", (*selectionBody).validate),
		bodytest.Of("event", func(b *eventBody) []errs.Violation {
			_, violations := b.event(1)
			return violations
		}))
}
