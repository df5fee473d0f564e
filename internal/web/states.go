package web

import "fmt"

// stateWords are the states that the API has, as the pages of every site write them, to be translated. Suppliers and
// operators thus say the same of one delivery, and a program's words are found by those of a page.
var stateWords = map[string]string{
	"": "All",

	"enqueued": "Enqueued", "estimated": "Estimated", "selected": "Selected", // requests
	"pending": "Pending", "delivered": "Delivered", "dead": "Dead", "failed": "Failed", // deliveries; failed: requests too
	"undelivered": "Undelivered",
	"active":      "Active", "failing": "Failing", "paused": "Paused", "none": "Not set", // receivers
	"true": "Active", "false": "Deactivated", // suppliers
}

// stateWord returns a state of any type as the pages write it, to be translated.
func stateWord(state any) string {
	text := fmt.Sprint(state)
	if word := stateWords[text]; word != "" {
		return word
	}
	return text
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
	case "paused":
		return "warn"
	default:
		return "calm"
	}
}
