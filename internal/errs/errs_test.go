package errs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
)

func TestKind_is_found_through_wrapping(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for name, test := range map[string]struct {
		err  error
		kind errs.Kind
	}{
		"none": {cause, errs.Internal}, "nil": {nil, errs.Internal}, "plain": {errs.New(errs.Conflict, "x"), errs.Conflict},
		"wrapped": {fmt.Errorf("a: %w", fmt.Errorf("b: %w", errs.Wrap(errs.NotFound, "x", cause))), errs.NotFound},
		"joined":  {errors.Join(cause, errs.NewUnavailable("x", time.Second, cause)), errs.Unavailable},
		"first":   {errs.Wrap(errs.Invalid, "x", errs.New(errs.Conflict, "y")), errs.Invalid},
	} {
		if got := errs.KindOf(test.err); got != test.kind {
			t.Errorf("%s: kind %d, want %d", name, got, test.kind)
		}
	}
	if !errors.Is(errs.Wrap(errs.NotFound, "x", cause), cause) {
		t.Error("the cause is lost")
	}
}

func TestViolations_point_into_the_body_or_name_a_parameter(t *testing.T) {
	t.Parallel()
	e := errs.InvalidInput("bad", errs.At("", "whole"), errs.At("/a", "x"), errs.InParameter("page", "y"))
	if *e.Violations[0].Pointer != "" || *e.Violations[1].Pointer != "/a" || e.Violations[2].Pointer != nil ||
		*e.Violations[2].Parameter != "page" || e.Kind != errs.Invalid {
		t.Errorf("got %+v", e)
	}
}

func TestText_is_one_sentence_for_a_person(t *testing.T) {
	t.Parallel()
	away := errs.NewUnavailable("The database cannot be reached.", time.Second, errors.New("refused"))
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("plain"), "plain"},
		{away, "The database cannot be reached: refused"},
		{fmt.Errorf("migrate: %w", fmt.Errorf("lock: %w", away)), "The database cannot be reached: refused"},
		{fmt.Errorf("%w (3 are redelivered)", away), "The database cannot be reached: refused (3 are redelivered)"},
	} {
		if got := errs.Text(test.err); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestViolation_names_a_parameter_whose_name_is_empty(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal([]errs.Violation{errs.InParameter("", "x"), errs.At("", "y"), errs.InParameter("a", "z")})
	want := `[{"parameter":"","detail":"x"},{"pointer":"","detail":"y"},{"parameter":"a","detail":"z"}]`
	if err != nil || string(text) != want {
		t.Errorf("%s, want %s: %v", text, want, err)
	}
}
