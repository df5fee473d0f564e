package estimates

import (
	"sync"
	"time"
	_ "time/tzdata" // the zone is known on a machine without a zone database

	"github.com/rickar/cal/v2"
	"github.com/rickar/cal/v2/br"
)

// Days are São Paulo's, whatever the machine's zone. Work that comes after the cut-off hour, or on a day that is no
// business day, begins on the next business day.

const (
	zoneName   = "America/Sao_Paulo"
	cutOffHour = 14 // São Paulo time: work that comes later begins on the next business day
	validDays  = 7  // an estimate may be chosen until the end of the 7th day after it was made

	oneDay        = 24 * time.Hour // in UTC every day has as many
	secondsPerDay = 24 * 60 * 60
)

// calendar knows Brazil's business days and São Paulo's clock. A day is midnight UTC of its date.
type calendar struct {
	business *cal.BusinessCalendar
	zone     *time.Location
	known    sync.Map // Unix day → bool: the library computes each day's holidays again
}

// newCalendar loads the zone of São Paulo and the national holidays of Brazil.
func newCalendar() *calendar {
	zone, err := time.LoadLocation(zoneName)
	if err != nil {
		panic(err) // time/tzdata is linked
	}
	c := &calendar{business: cal.NewBusinessCalendar(), zone: zone}
	c.business.AddHoliday(br.Holidays...)
	return c
}

// dates are what all services share of one request's dates.
type dates struct {
	made       time.Time // the day of the request
	dispatch   time.Time // the day on which the goods leave
	validUntil time.Time
}

// dates returns those of a request made at the given moment. A production that takes too long is not counted to its
// end.
func (c *calendar) dates(at time.Time, productionDays int) dates {
	return dates{c.day(at), c.after(c.start(at), min(productionDays, longestProduction)), c.validUntil(at)}
}

// day returns the São Paulo date of a moment.
func (c *calendar) day(at time.Time) time.Time {
	local := at.In(c.zone)
	return time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
}

// start returns the business day on which work that arrives at the given moment begins.
func (c *calendar) start(at time.Time) time.Time {
	day := c.day(at)
	if at.In(c.zone).Hour() >= cutOffHour {
		day = day.Add(oneDay)
	}
	for !c.isBusinessDay(day) {
		day = day.Add(oneDay)
	}
	return day
}

// after returns the n-th business day after a business day.
func (c *calendar) after(day time.Time, n int) time.Time {
	for n > 0 {
		if day = day.Add(oneDay); c.isBusinessDay(day) {
			n--
		}
	}
	return day
}

// between counts the business days after from, up to and with to.
func (c *calendar) between(from, to time.Time) int {
	n := 0
	for day := from.Add(oneDay); !day.After(to); day = day.Add(oneDay) {
		if c.isBusinessDay(day) {
			n++
		}
	}
	return n
}

// isBusinessDay reports whether goods are made and carried on that day.
func (c *calendar) isBusinessDay(day time.Time) bool {
	number := day.Unix() / secondsPerDay
	if known, found := c.known.Load(number); found {
		return known == true
	}
	is := c.business.IsWorkday(day)
	c.known.Store(number, is)
	return is
}

// validUntil returns the last second of the validity of an estimate made at the given moment.
func (c *calendar) validUntil(at time.Time) time.Time {
	local := at.In(c.zone)
	return time.Date(local.Year(), local.Month(), local.Day()+validDays, 23, 59, 59, 0, c.zone).UTC()
}
