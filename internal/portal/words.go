package portal

import (
	"fmt"
	"strings"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// field returns what the page calls the place of a violation.
func field(v errs.Violation) string {
	name := v.Parameter
	if v.Pointer != nil {
		name = strings.TrimPrefix(*v.Pointer, "/")
	}
	switch name {
	case "url":
		return "URL"
	case "since":
		return "Since"
	case "until":
		return "Until"
	case "status":
		return "Status"
	case "overlap":
		return "The overlap"
	case "estimate_id":
		return "The estimate"
	default:
		return name
	}
}

// hint returns what a test call's answer says of the receiver: the two mistakes that are made first, in words. Empty: the
// answer speaks for itself.
func hint(status int) string {
	switch status {
	case 401, 403:
		return "Your receiver refused the signature: check that it has the current secret, reads the raw body, and that its clock is right."
	case 404, 405:
		return "Nothing takes calls at this path: check the address, and that your receiver takes POST below it."
	case 410:
		return "Your receiver says that it is gone. A delivery that is answered 410 pauses your receiver."
	default:
		return ""
	}
}

// within returns how long a call waited in vain; empty when it failed by something else.
func within(reason any) string {
	text, _ := strings.CutPrefix(asString(reason), "no answer within ")
	if text == asString(reason) {
		return ""
	}
	return text
}

// asString returns the text of any type of state.
func asString(v any) string { return fmt.Sprint(v) }
