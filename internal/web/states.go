package web

import (
	"fmt"
	"strings"
)

// stateWord returns a state of any type as the pages of every site write it, to be translated. Suppliers and operators
// thus say the same of one delivery, and a program's words are found by those of a page.
func stateWord(state any) string {
	switch text := fmt.Sprint(state); text {
	case "":
		return "All"
	case "enqueued", "estimated", "selected", // requests
		"pending", "delivered", "dead", "failed", "undelivered", // deliveries; failed: requests too
		"active", "failing", "paused", "nothing sent yet", "last call failed": // receivers
		return strings.ToUpper(text[:1]) + text[1:]
	case "none": // of a receiver
		return "Not set"
	case "true": // of a supplier
		return "Active"
	case "false":
		return "Deactivated"
	default:
		return text
	}
}

// kindOf returns the colour of a state of any type.
func kindOf(state any) string {
	switch fmt.Sprint(state) {
	case "delivered", "estimated", "selected", "active", "true":
		return "good"
	case "pending", "enqueued":
		return "busy"
	case "dead", "failed", "failing":
		return "bad"
	case "paused", "last call failed":
		return "warn"
	default:
		return "calm"
	}
}
