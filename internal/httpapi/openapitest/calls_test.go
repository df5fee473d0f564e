package openapitest

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestCalls_are_of_every_operation_and_many_are_right(t *testing.T) {
	t.Parallel()
	calls, err := Validator(t).Calls(rand.New(rand.NewPCG(1, 2)), func(id string) bool { return id == "ping" })
	if err != nil {
		t.Fatal(err)
	}
	operations, right, hostile, allowed := map[string]int{}, 0, 0, 0
	for range 5000 {
		c := calls.Next()
		operations[c.Operation]++
		switch {
		case c.Hostile:
			hostile++
		case c.Allowed:
			allowed++
			fallthrough
		default:
			right++
		}
		if strings.Contains(c.Path, "{") && !c.Hostile {
			t.Errorf("%s %s", c.Method, c.Path)
		}
	}
	if len(operations) < 30 || operations["ping"] > 0 {
		t.Errorf("%d operations: %v", len(operations), operations)
	}
	if right < 1500 || hostile < 1000 || allowed < 300 {
		t.Errorf("%d right ones, %d with an allowed body, and %d hostile ones", right, allowed, hostile)
	}
}
