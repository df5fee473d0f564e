package materials

import (
	"context"
	"testing"

	"github.com/supplyhub/supplyhub/internal/errs"
)

func TestWaits_of_one_supplier_leave_places_to_the_others(t *testing.T) {
	t.Parallel()
	w := newWaiters(func(context.Context, []requestKey) ([]requestKey, error) { return nil, nil })
	t.Cleanup(w.close)
	take := func(supplier string) (got int, leave []func()) {
		for id := range int64(2 * maxWaiters) {
			_, unsubscribe, err := w.subscribe(requestKey{supplier, id % 7})
			if err != nil {
				if !errs.IsUnavailable(err) {
					t.Fatal(err)
				}
				return got, leave
			}
			got, leave = got+1, append(leave, unsubscribe)
		}
		return got, leave
	}
	greedy, leave := take("greedy")
	second, _ := take("second")
	third, _ := take("third")
	if greedy != maxWaiters/2 || second != maxWaiters/4 || third != maxWaiters/8 {
		t.Errorf("they hold %d, %d and %d of %d places", greedy, second, third, maxWaiters)
	}
	if again, _ := take("greedy"); again != 0 {
		t.Errorf("the greedy one has %d more", again)
	}
	for _, unsubscribe := range leave {
		unsubscribe()
	}
	if more, _ := take("fourth"); more < maxWaiters/4 {
		t.Errorf("what was given back is not given out: %d", more)
	}
}
