package portal

import (
	"fmt"
	"strings"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// field returns what the page calls the place of a violation.
func field(v errs.Violation) string {
	switch name := v.Place(); name {
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
