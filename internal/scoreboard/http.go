package scoreboard

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// The order of checks is the interface's: a route that is not configured (503), the key (401), the parameters (400),
// the quota (429), then the answer. The quota's headers come first and are on every one of them.

const (
	keyHeader     = "svc-pulse-key"
	defaultLeague = 648
	earliestYear  = 1900
	latestYear    = 9998
)

// Show handles POST /pulse/scoreboard. Every answer states the caller's quota.
func (s *Service) Show(c *gin.Context) error {
	ctx := c.Request.Context()
	requester := requesterOf(c.Request.URL.Query().Get("partner"))
	asked, err := s.admit(c, requester)
	if err != nil {
		limitHeaders(c, s.shown(ctx, requester))
		return err
	}
	spent, err := s.take(ctx, requester)
	now := s.now()
	if err == nil && !spent.granted && !now.Before(spent.reset) { // its day ended meanwhile, the new one has units
		spent, err = s.take(ctx, requester)
	}
	limitHeaders(c, spent.quota)
	if err != nil {
		return err
	}
	if !spent.granted {
		return errs.NewExhausted(fmt.Sprintf("The requester %s has reached its daily quota. It is reset at %s.", requester,
			spent.reset.In(promised()).Format(stampShape)), spent.reset.Sub(now)) // now is within the quota's day
	}
	if s.deps.Primary == nil {
		return errors.New("fetch scoreboard: SPORTMONKS_API_TOKEN is not set")
	}
	body, err := s.board(ctx, asked)
	if err != nil {
		return fmt.Errorf("fetch scoreboard: %w", err)
	}
	return httpapi.Bytes(c, http.StatusOK, "application/json; charset=utf-8", body)
}

// MethodNotAllowed answers as next does where a route has other methods, on this route with the quota's headers.
func (s *Service) MethodNotAllowed(path string, next gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		if c.Request.URL.Path == path {
			limitHeaders(c, s.shown(c.Request.Context(), requesterOf(c.Request.URL.Query().Get("partner"))))
		}
		next(c)
	}
}

// admit returns the caller's question as the settings change it. Errors, in this order: errs.Unavailable without keys,
// errs.Unauthenticated, errs.Invalid, then that of the settings, which are what they were last when they cannot be
// read.
func (s *Service) admit(c *gin.Context, requester string) (request, error) {
	if len(s.deps.Keys) == 0 {
		return request{}, errs.New(errs.Unavailable, "The scoreboard is not configured on this server.")
	}
	if !s.authenticated(c.Request.Header) {
		return request{}, errs.New(errs.Unauthenticated, "The key is missing or invalid.")
	}
	httpapi.Known(c, requester)
	if err := httpapi.Proper(c); err != nil {
		return request{}, err
	}
	current, away := s.settings.current(c.Request.Context())
	asked, err := s.parse(c.Request.URL.Query(), current)
	return asked, cmp.Or(err, away)
}

// authenticated reports whether the key is a configured one, in constant time.
func (s *Service) authenticated(h http.Header) bool {
	presented := h.Values(keyHeader)
	if len(presented) != 1 {
		return false
	}
	got := sha256.Sum256([]byte(presented[0]))
	good := 0
	for _, key := range s.deps.Keys {
		want := sha256.Sum256([]byte(key))
		good |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return good == 1
}

// limitHeaders sets the quota's headers, which every answer has, refusals included.
func limitHeaders(c *gin.Context, q quota) {
	c.Header("X-RateLimit-Limit", format(q.limit))
	c.Header("X-RateLimit-Remaining", format(q.remaining()))
	c.Header("X-RateLimit-Reset", format(q.reset.Unix()))
}

// parse reads the parameters. While the settings are active their league and matches count, whatever leagueId holds.
// Errors: errs.Invalid with every violation.
func (s *Service) parse(v url.Values, current values) (request, error) {
	r := request{question: Question{League: defaultLeague, Day: Day(s.now())}}
	var violations []errs.Violation
	single := func(name string) (string, bool) {
		if len(v[name]) > 1 {
			violations = append(violations, errs.InParameter(name, "must be given only once"))
		}
		return v.Get(name), len(v[name]) == 1
	}
	text, given := single("leagueId")
	switch {
	case current.active:
		r.question.League, r.matchIDs = cmp.Or(current.league, defaultLeague), current.matchIDs
	case given:
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 1 || text[0] == '+' {
			violations = append(violations, errs.InParameter("leagueId", "must be a positive integer"))
		}
		r.question.League = id
	}
	if text, given := single("referenceDate"); given {
		at, ok := parseDate(text)
		if !ok {
			violations = append(violations, errs.InParameter("referenceDate",
				"must be YYYY-MM-DD or a date-time such as 2026-11-21T20:00:00-03:00, of the years 1900 to 9998; a + of its "+
					"zone is written %2B"))
		}
		r.question.Day = at
	}
	single("partner")
	if len(violations) > 0 {
		return request{}, errs.InvalidInput("The parameters are not valid.", violations...)
	}
	return r, nil
}

// parseDate returns the day of a date or of a date-time, which is São Paulo's when it names no zone.
func parseDate(text string) (day time.Time, ok bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			day, ok = Day(at), true
		}
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04",
		"2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if at, err := time.Parse(layout, text); err == nil { // its day is written in it, whichever hours that day had
			day, ok = startOf(at.Date()), true
		}
	}
	return day, ok && day.Year() >= earliestYear && day.Year() <= latestYear
}

// RenderError answers an error in the route's envelope.
func RenderError(c *gin.Context, err error) {
	status, text := httpapi.StatusOf(err), detail(err)
	short, known := map[int]string{
		http.StatusBadRequest: "INVALID_PARAMETERS", http.StatusUnauthorized: "UNAUTHORIZED",
		http.StatusTooManyRequests: "RATE_LIMIT_EXCEEDED", http.StatusServiceUnavailable: "SERVICE_UNAVAILABLE",
		http.StatusRequestEntityTooLarge: "INVALID_PARAMETERS",
	}[status]
	if !known {
		status, short, text = http.StatusInternalServerError, "SCOREBOARD_ERROR", "The scoreboard could not be fetched."
	}
	httpapi.RetryAfter(c, err)
	if err := httpapi.JSON(c, status, failed(status, short, text)); err != nil { // it names many violations
		RenderError(c, err)
	}
}

// detail returns the error's text for the caller, with every violation.
func detail(err error) string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return http.StatusText(httpapi.StatusOf(err))
	}
	text := e.Detail
	for _, v := range e.Violations {
		text += fmt.Sprintf(" %s %s.", v.Place(), v.Detail)
	}
	return text
}
