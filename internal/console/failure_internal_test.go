package console

import (
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/httpapi/bodytest"
)

// Once it was an empty 200.
func TestRefusal_of_a_change_that_there_is_no_memory_for_is_a_503_with_its_message(t *testing.T) {
	t.Parallel()
	s, err := New(Deps{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	bodytest.RefuseWithoutMemory(t, s.Act, "The service has no memory")
}
