package tracker

import (
	"errors"
	"fmt"
	"io"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// mostBadLines is how many lines of a file are named.
const mostBadLines = 100

// badLine is a line of a file that is not a record.
type badLine struct {
	number int64
	detail string
	faults []errs.Violation // of its fields
	last   bool             // the records after it cannot be found
}

// Error returns the line for a person.
func (b *badLine) Error() string { return fmt.Sprintf("line %d %s", b.number, b.detail) }

// refuse reads on after a bad line, only to name the others. Errors: errs.Invalid with all of them.
func (l *lines) refuse(first *badLine) error {
	bad := []*badLine{first}
	for len(bad) < mostBadLines && !bad[len(bad)-1].last {
		_, err := l.next()
		next, isBad := errors.AsType[*badLine](err)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !isBad {
			return err
		}
		if isBad {
			bad = append(bad, next)
		}
	}
	if len(bad) == 1 {
		return errs.InvalidInput(fmt.Sprintf("Line %d %s; nothing was loaded.", first.number, first.detail), first.faults...)
	}
	text := fmt.Sprintf("%d lines are not valid records; nothing was loaded.", len(bad))
	if len(bad) == mostBadLines {
		text = fmt.Sprintf("At least %d lines are not valid records, the first of which follow; nothing was loaded.",
			len(bad))
	}
	return errs.InvalidInput(text, violationsOf(bad)...)
}

func violationsOf(bad []*badLine) []errs.Violation {
	var violations []errs.Violation
	for _, line := range bad {
		at := fmt.Sprintf("/Line %d", line.number)
		if len(line.faults) == 0 {
			violations = append(violations, errs.At(at, line.detail))
		}
		for _, fault := range line.faults {
			violations = append(violations, errs.At(at+*fault.Pointer, fault.Detail))
		}
	}
	return violations
}
