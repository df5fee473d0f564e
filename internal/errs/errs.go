// Package errs is the service's one error type: what kind of failure it is,
// what the caller may read about it, and every violation found.
// It knows no HTTP: httpapi turns a Kind into a status, in one table.
package errs

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says what a failure means to the caller. The zero value is Internal.
type Kind int

// The kinds of failure. Every error that is not an *Error is Internal.
const (
	Internal        Kind = iota // a defect or an unforeseen failure: its text is never shown
	Invalid                     // the input breaks rules, named in Violations
	Unauthenticated             // no or bad credentials
	Forbidden                   // good credentials without the permission
	NotFound                    // the thing does not exist for this caller
	Conflict                    // the thing's state does not allow it
	Unprocessable               // well-formed input that the business rules refuse
	TooLarge                    // the input is over the size limit
	Unsupported                 // a media type or encoding that is not accepted
	Exhausted                   // a quota or rate is used up; see RetryAfter
	Unavailable                 // a dependency cannot be reached; see RetryAfter
)

// Violation is one broken rule. Pointer is a JSON pointer into the body, Parameter names a
// query parameter; exactly one of the two is set.
type Violation struct {
	Pointer   *string `json:"pointer,omitempty"`
	Parameter *string `json:"parameter,omitempty"`
	Detail    string  `json:"detail"`
}

// At returns a violation at a JSON pointer of the body; "" is the whole body.
func At(pointer, detail string) Violation {
	return Violation{Pointer: &pointer, Detail: detail}
}

// Place returns the pointer without its first slash, or the parameter's name.
func (v Violation) Place() string {
	if v.Pointer != nil {
		return strings.TrimPrefix(*v.Pointer, "/")
	}
	return *v.Parameter
}

// InParameter returns a violation of a query parameter, whose name may be empty.
func InParameter(name, detail string) Violation {
	return Violation{Parameter: &name, Detail: detail}
}

// Error is a failure whose Detail and Violations may be shown to the caller. Its cause is for the log alone.
type Error struct {
	Kind       Kind
	Detail     string
	Violations []Violation
	RetryAfter time.Duration // zero: say nothing
	Passing    bool          // Unavailable only: repeated at once it may succeed, as after a deadlock
	cause      error
}

// New returns an error of the given kind with a text for the caller.
func New(kind Kind, detail string) *Error {
	return &Error{Kind: kind, Detail: detail}
}

// Wrap is New with a cause that only the log shows.
func Wrap(kind Kind, detail string, cause error) *Error {
	return &Error{Kind: kind, Detail: detail, cause: cause}
}

// InvalidInput returns an Invalid error that lists every violation.
func InvalidInput(detail string, violations ...Violation) *Error {
	return &Error{Kind: Invalid, Detail: detail, Violations: violations}
}

// NewExhausted returns an Exhausted error: the caller may retry after the given time.
func NewExhausted(detail string, retryAfter time.Duration) *Error {
	return &Error{Kind: Exhausted, Detail: detail, RetryAfter: retryAfter}
}

// NewUnavailable returns an Unavailable error: a dependency cannot be reached; the caller may retry after the given
// time.
func NewUnavailable(detail string, retryAfter time.Duration, cause error) *Error {
	return &Error{Kind: Unavailable, Detail: detail, RetryAfter: retryAfter, cause: cause}
}

// Doing returns the error with what was being done; nil stays nil.
func Doing(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Error returns the text for the log: the detail and the cause, as one sentence.
func (e *Error) Error() string {
	if e.cause != nil {
		return strings.TrimSuffix(e.Detail, ".") + ": " + e.cause.Error()
	}
	return e.Detail
}

// Text returns err for the person at a terminal: from the first *Error on, without the steps that were wrapped around
// it for the log.
func Text(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*Error](err); ok {
		if at := strings.Index(text, e.Error()); at > 0 {
			return text[at:]
		}
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// KindOf returns the kind of the first *Error in err's chain, Internal when there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// IsUnavailable reports whether err says that a dependency is not available: repeating at once would fail the same.
func IsUnavailable(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == Unavailable && !e.Passing
}

// IsPassing reports whether err says that another transaction was in the way: repeated it may succeed.
func IsPassing(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == Unavailable && e.Passing
}
