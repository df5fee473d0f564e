package portal

import (
	"strings"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
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

// phrase is a reason in parts: Text is translated and has one place when In is not empty, Before is the same
// everywhere.
type phrase struct{ Before, Text, In string }

// phraseOf returns why a call failed, in parts.
func phraseOf(reason string) phrase {
	p := phrase{Text: reason}
	if status, rest, found := strings.Cut(reason, ": "); found && strings.HasPrefix(status, "status ") {
		p.Before, p.Text = status+": ", rest
	}
	for _, form := range []string{deliveries.Unanswered, deliveries.Redirects, supplierauth.WholeCall} {
		begin, end, _ := strings.Cut(form, "%s")
		if in, found := strings.CutPrefix(p.Text, begin); found && strings.HasSuffix(in, end) {
			p.Text, p.In = form, strings.TrimSuffix(in, end)
		}
	}
	return p
}
