package estimates

import (
	"context"
	"errors"
	"math"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// The rate card is a table: one row for each service and the day from which it counts. The default card is inserted
// by the first migration (internal/database/migrations, rate_services); an operator changes it by a command. A
// process reads the whole card when the one that it has is a second old. When that fails the estimation fails, and is
// tried again by its schedule.

// cardAge is how long a read card serves: so soon a change counts everywhere.
const cardAge = time.Second

// Service is one delivery service of the card, as it is from a day on: a row of the card's table.
type Service struct {
	Name          string  `gorm:"primaryKey" json:"service"`
	Carrier       string  `json:"carrier"`
	BaseCents     int64   `json:"base_cents"`
	PerKgCents    int64   `json:"per_kg_cents"`
	MinimumCents  int64   `json:"minimum_cents"`
	CubageKgM3    float64 `gorm:"column:cubage_kg_m3" json:"cubage_kg_m3"` // kilograms that a cubic metre is charged as
	MaxSideCm     float64 `json:"max_side_cm"`                             // of one piece
	MaxWeightKg   float64 `json:"max_weight_kg"`                           // of the chargeable weight
	TransitDays   int     `json:"transit_days"`                            // business days from dispatch to delivery
	EffectiveFrom string  `gorm:"primaryKey" json:"effective_from"`        // São Paulo day, YYYY-MM-DD
}

// RateCard is the Estimator that reads its card from the database. A change of the card needs no restart.
type RateCard struct {
	store    *store
	now      func() time.Time
	local    func() time.Time // monotonic
	calendar func() *calendar

	mu     sync.Mutex
	card   []Service
	readAt time.Time
}

// New returns a rate card over the database, whose days go by its clock now; local is this process's, for what lasts
// within it.
func New(db *database.DB, now, local func() time.Time) *RateCard {
	return &RateCard{store: &store{db}, now: now, local: local, calendar: sync.OnceValue(newCalendar)}
}

// Estimate computes every service of the card that is in force on the request's day. The same request,
// day and side of the cut-off hour give the same result. An error means that the card cannot be read, or is empty.
func (c *RateCard) Estimate(ctx context.Context, r Request) (Result, error) {
	card, err := c.read(ctx)
	if err != nil {
		return Result{}, err
	}
	days := c.calendar()
	services := inForce(card, days.day(r.At).Format(time.DateOnly))
	if len(services) == 0 {
		return Result{}, errors.New("the rate card has no service in force")
	}
	return compute(r, services, days), nil
}

// read returns the card, at most cardAge old. One caller reads, the others wait for it.
func (c *RateCard) read(ctx context.Context) ([]Service, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.local(); c.card == nil || now.Sub(c.readAt) >= cardAge {
		card, err := c.store.all(ctx)
		if err != nil {
			return nil, err
		}
		c.card, c.readAt = card, now
	}
	return c.card, nil
}

// inForce are, of each service, the version that counts on the day. The card is ordered by name and day.
func inForce(card []Service, day string) []Service {
	services := make([]Service, 0, len(card))
	for _, s := range card {
		switch last := len(services) - 1; {
		case s.EffectiveFrom > day:
		case last >= 0 && services[last].Name == s.Name:
			services[last] = s
		default:
			services = append(services, s)
		}
	}
	return services
}

// List returns the whole card, ordered by service and day, with what is not in force yet and what is not any more.
func (c *RateCard) List(ctx context.Context) ([]Service, error) { return c.store.all(ctx) }

// Change stores, from the day (YYYY-MM-DD) on, what change makes of the service as it is on that day, or of a new one.
// Two changes at once are both made. Errors are Set's.
func (c *RateCard) Change(ctx context.Context, name, day string, change func(*Service)) (s Service, err error) {
	err = c.store.db.InTx(ctx, "change a delivery service", func(ctx context.Context) error {
		if err := c.store.alone(ctx); err != nil {
			return err
		}
		card, err := c.store.all(ctx)
		if err != nil {
			return err
		}
		s = Service{Name: name}
		for _, current := range inForce(card, day) {
			if current.Name == name {
				s = current
			}
		}
		s.EffectiveFrom = day
		change(&s)
		return c.Set(ctx, s)
	})
	return s, err
}

// Today returns the São Paulo day.
func (c *RateCard) Today() string { return c.calendar().day(c.now()).Format(time.DateOnly) }

// Set stores the service as it is from its day on. Estimates already made stay as they are. errs.Invalid names every
// violation.
func (c *RateCard) Set(ctx context.Context, s Service) error {
	if violations := s.validate(); len(violations) > 0 {
		return errs.InvalidInput("The service is not valid.", violations...)
	}
	return c.store.save(ctx, s)
}

// Remove takes the service off the card, with all its days. errs.NotFound: there is none; errs.Conflict: nothing would
// be left in force.
func (c *RateCard) Remove(ctx context.Context, name string) error {
	today := c.Today()
	return c.store.remove(ctx, name, func(rest []Service) error {
		if len(inForce(rest, today)) == 0 {
			return errs.New(errs.Conflict, "The rate card needs at least one service that is valid today.")
		}
		return nil
	})
}

const (
	largestCents = 1_000_000_000_000 // 10 thousand million reais
	largestSize  = 1_000_000
	mostTransit  = 365
)

var serviceName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// validate names every rule that a service breaks.
func (s Service) validate() []errs.Violation {
	var found []errs.Violation
	check := func(ok bool, parameter, detail string) {
		if !ok {
			found = append(found, errs.InParameter(parameter, detail))
		}
	}
	check(serviceName.MatchString(s.Name), "service", "must be 1 to 63 of a-z, 0-9, _ and -")
	check(strings.TrimSpace(s.Carrier) != "" && len(s.Carrier) <= 255, "carrier", "must be a text of at most 255 bytes")
	check(s.BaseCents >= 0 && s.BaseCents <= largestCents, "base-cents", "must be 0 to 1000000000000")
	check(s.PerKgCents >= 0 && s.PerKgCents <= largestSize, "per-kg-cents", "must be 0 to 1000000")
	check(s.MinimumCents >= 0 && s.MinimumCents <= largestCents, "minimum-cents", "must be 0 to 1000000000000")
	check(within(s.CubageKgM3, largestSize), "cubage", "must be 0 to 1000000 kg a cubic metre")
	check(within(s.MaxSideCm, largestSize) && s.MaxSideCm > 0, "max-side", "must be above 0 and at most 1000000 cm")
	check(within(s.MaxWeightKg, largestSize) && s.MaxWeightKg > 0, "max-weight", "must be above 0 and at most 1000000 kg")
	check(s.TransitDays >= 0 && s.TransitDays <= mostTransit, "transit-days", "must be 0 to 365 business days")
	_, err := time.Parse(time.DateOnly, s.EffectiveFrom)
	check(err == nil, "from", "must be a day, YYYY-MM-DD")
	return found
}

// within reports whether a number is 0 to the largest.
func within(v, largest float64) bool { return v >= 0 && v <= largest && !math.IsNaN(v) }
