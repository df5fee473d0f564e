package console

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
)

type scoreboardView struct {
	Remaining map[string]int64            `json:"remaining"` // of today, by requester
	Providers map[string]map[string]int64 `json:"providers"` // what this process asked since its start, by outcome
	Settings  []scoreboard.Setting        `json:"settings"`
}

func (s *views) scoreboard(ctx context.Context, _ query) (any, error) {
	left, err := s.deps.Remaining(ctx)
	asked, askedErr := s.deps.Providers()
	settings, settingsErr := s.deps.Scores.ListSettings(ctx)
	return scoreboardView{left, asked, settings}, errors.Join(err, askedErr, settingsErr)
}

// Set handles POST /console/scoreboard/set; an empty value gives the setting its default again.
func (s *Service) Set(c *gin.Context) error {
	ctx, key, value := c.Request.Context(), form(c, "key"), form(c, "value")
	logctx.Note(ctx, slog.Any("ids", []string{key}), slog.String("value", value))
	var err error
	if value == "" {
		_, err = s.deps.Scores.UnsetSetting(ctx, key)
	} else {
		_, err = s.deps.Scores.SetSetting(ctx, key, value)
	}
	return s.done(c, err, "Saved. It takes effect on every replica within 5 seconds.")
}

type ratesView struct {
	Today string              `json:"today"` // in São Paulo
	Items []estimates.Service `json:"items"`
	Edit  *estimates.Service  `json:"-"` // the service whose values the form has
}

func (s *views) rates(ctx context.Context, q query) (any, error) {
	card, err := s.deps.Rates.List(ctx)
	view := ratesView{Today: s.deps.Rates.Today(), Items: append([]estimates.Service{}, card...)}
	for i, service := range card {
		if name := q.values.Get("service"); name != "" && service.Name == name {
			view.Edit = &card[i] // the latest of its days
		}
	}
	return view, err
}

// readDecimal reads a number with a point or a comma, whatever the page's language, and returns what is wrong with it.
// With three digits behind that it may be thousands: the lists write ten thousand as 10,000 or 10.000.
func readDecimal(text string) (n float64, fault string) {
	switch parts := regexp.MustCompile(`^-?\d+(?:[.,](\d+))?$`).FindStringSubmatch(text); {
	case parts == nil:
		return 0, "must be a number"
	case len(parts[1]) == 3:
		return 0, "must not have exactly three digits after a point or comma: write 10000 for ten thousand, 10.0 for ten"
	}
	n, _ = strconv.ParseFloat(strings.ReplaceAll(text, ",", "."), 64) // too large is infinite, and refused
	return n, ""
}

// exact writes a number in full, as readDecimal takes it.
func exact(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if _, behind, _ := strings.Cut(text, "."); len(behind) == 3 {
		text += "0"
	}
	return text
}

// SetRate handles POST /console/rates/set: a service as it is from a day on.
func (s *Service) SetRate(c *gin.Context) error {
	var wrong []errs.Violation
	whole := func(name string) int64 {
		n, err := strconv.ParseInt(form(c, name), 10, 64)
		if err != nil {
			wrong = append(wrong, errs.InParameter(name, "must be a whole number"))
		}
		return n
	}
	decimal := func(name string) float64 {
		n, fault := readDecimal(form(c, name))
		if fault != "" {
			wrong = append(wrong, errs.InParameter(name, fault))
		}
		return n
	}
	rate := estimates.Service{
		Name: form(c, "service"), Carrier: form(c, "carrier"), BaseCents: whole("base-cents"),
		PerKgCents: whole("per-kg-cents"), MinimumCents: whole("minimum-cents"), CubageKgM3: decimal("cubage"),
		MaxSideCm: decimal("max-side"), MaxWeightKg: decimal("max-weight"), TransitDays: int(whole("transit-days")),
		EffectiveFrom: form(c, "from"),
	}
	if len(wrong) > 0 {
		return errs.InvalidInput("The service is not valid.", wrong...)
	}
	logctx.Note(c.Request.Context(), slog.Any("ids", []string{rate.Name}), slog.Any("rate", rate))
	return s.done(c, s.deps.Rates.Set(c.Request.Context(), rate), "Saved. Estimates that were sent stay as they are.")
}

// RemoveRate handles POST /console/rates/remove.
func (s *Service) RemoveRate(c *gin.Context) error {
	return s.run(c, bulk{
		button: "Remove", danger: true, ask: "Remove %d service with all its days?",
		askMany: "Remove %d services with all their days?", done: "%d service was removed from the rate card.",
		doneMany: "%d services were removed from the rate card.", do: s.deps.Rates.Remove,
	})
}
