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

// wordOf returns a state as the pages write it, to be translated.
func wordOf(state any) string {
	switch text := asString(state); text {
	case "":
		return "All"
	case "pending":
		return "Pending"
	case "delivered":
		return "Delivered"
	case "dead":
		return "Dead"
	case "failed":
		return "Failed"
	case "enqueued":
		return "Being estimated"
	case "estimated":
		return "Estimated"
	case "selected":
		return "Chosen"
	case "active":
		return "Active"
	case "failing":
		return "Failing"
	case "paused":
		return "Paused"
	case "none":
		return "Not set"
	default:
		return text
	}
}

// requestWordOf is wordOf for a request: it fails for other reasons than a delivery.
func requestWordOf(state any) string {
	if asString(state) == "failed" {
		return "Not estimated"
	}
	return wordOf(state)
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
