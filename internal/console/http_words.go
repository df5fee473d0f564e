package console

import (
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// refusedByRole is in PostgreSQL's answer to a statement that the role may not run.
const refusedByRole = "SQLSTATE 42501"

// labels returns what the forms call the values that a violation names.
func labels() map[string]string {
	return map[string]string{
		"name": "Name", "webhook_url": "Receiver's address", "overlap": "The old one works for",
		"receiver_concurrency": "Calls at once",
		"service":              "Service", "carrier": "Carrier", "base-cents": "Base price (cents)",
		"per-kg-cents": "Price per kg (cents)", "minimum-cents": "Lowest price (cents)", "cubage": "Cubage (kg/m³)",
		"max-side": "Largest side (cm)", "max-weight": "Largest weight (kg)", "transit-days": "Transit (business days)",
		"from": "Valid from",
	}
}

// explain returns an error for the reader, with every violation.
func (s *Service) explain(c *gin.Context, err error) string {
	const internal = "This could not be read or done. The log of the api says why, under this request's X-Request-Id."
	if strings.Contains(err.Error(), refusedByRole) {
		return s.site.Text(c, "The api's role in the database may not do this. Use the command, or grant it as "+
			"deployments/postgres-roles.sql says.")
	}
	return s.site.Explain(c, err, internal, func(e *errs.Error) string {
		sentences := []string{s.site.Text(c, e.Detail)}
		for _, v := range e.Violations {
			name := v.Place()
			if label := labels()[name]; label != "" {
				name = s.site.Text(c, label)
			}
			sentences = append(sentences, name+" "+s.site.Text(c, v.Detail)+".")
		}
		return strings.Join(sentences, " ")
	})
}
