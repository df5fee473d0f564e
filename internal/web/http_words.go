package web

import (
	"errors"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// Text returns one of the site's texts in the reader's language.
func (s *Site) Text(c *gin.Context, text string, arguments ...any) string {
	return s.locale(c.Request).translate(text, arguments...)
}

// State returns a state in the reader's language.
func (s *Site) State(c *gin.Context, state string) string { return s.Text(c, stateWord(state)) }

// Count returns a text that depends on a number.
func (s *Site) Count(c *gin.Context, one, many string, n int64) string {
	return s.locale(c.Request).plural(one, many, n)
}

// Explain returns an error for the reader: known says it of one that callers may see, and internal is said of any
// other.
func (s *Site) Explain(c *gin.Context, err error, internal string, known func(*errs.Error) string) string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || e.Kind == errs.Internal {
		return s.Text(c, internal)
	}
	return known(e)
}
