package logctx_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/logctx"
)

func texts(ctx context.Context) []string {
	var list []string
	for _, a := range logctx.Attrs(ctx) {
		list = append(list, a.String())
	}
	return list
}

func TestWith_adds_in_order_and_leaves_the_context_before_as_it_was(t *testing.T) {
	t.Parallel()
	base := logctx.With(t.Context(), slog.String("a", "1"))
	left := logctx.With(base, slog.String("b", "2"), slog.Int("c", 3))
	right := logctx.With(base, slog.String("d", "4"))
	for name, c := range map[string]struct{ got, want []string }{
		"none": {texts(t.Context()), nil}, "base": {texts(base), []string{"a=1"}},
		"left": {texts(left), []string{"a=1", "b=2", "c=3"}}, "right": {texts(right), []string{"a=1", "d=4"}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRequestID_is_kept_and_among_the_attributes(t *testing.T) {
	t.Parallel()
	if id := logctx.RequestID(t.Context()); id != "" {
		t.Errorf("there is %q without one", id)
	}
	ctx := logctx.With(logctx.WithRequestID(t.Context(), "r-1"), slog.String("x", "y"))
	if id := logctx.RequestID(ctx); id != "r-1" {
		t.Errorf("got %q", id)
	}
	if diff := cmp.Diff([]string{"request_id=r-1", "x=y"}, texts(ctx)); diff != "" {
		t.Error(diff)
	}
}
