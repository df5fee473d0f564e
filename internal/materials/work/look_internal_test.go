package work

import "testing"

func TestLook_goes_on_at_once_while_it_left_something_out(t *testing.T) {
	t.Parallel()
	rows := func(supplier string, n int) []dueRound {
		list := make([]dueRound, n)
		for i, r := range some(supplier, 1, int64(n)) {
			list[i].Round = r
		}
		return list
	}
	l := looker{after: map[int]string{}}
	if l.went(append(rows("acme", lookEach-1), rows("brico", 1)...)) || len(l.after) > 0 {
		t.Error("a look that saw all is not the last one")
	}
	if !l.went(append(rows("acme", lookEach), rows("brico", 1)...)) || len(l.after) > 0 {
		t.Error("more of a supplier is forgotten, or the next look passes it over")
	}
	if !l.went(rows("acme", lookMost)) || len(l.after) != 1 {
		t.Error("the next look begins at the front again")
	}
}
