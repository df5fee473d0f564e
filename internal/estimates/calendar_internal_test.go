package estimates

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// nationalHolidays are written down by hand from the calendars of these years, as a second opinion next to the
// library's.
var nationalHolidays = map[int][]string{
	2026: {"01-01", "02-17", "04-03", "04-21", "05-01", "06-04", "09-07", "10-12", "11-02", "11-15", "11-20", "12-25"},
	2027: {"01-01", "02-09", "03-26", "04-21", "05-01", "05-27", "09-07", "10-12", "11-02", "11-15", "11-20", "12-25"},
	2028: {"01-01", "02-29", "04-14", "04-21", "05-01", "06-15", "09-07", "10-12", "11-02", "11-15", "11-20", "12-25"},
}

func date(tb testing.TB, text string) time.Time {
	tb.Helper()
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		tb.Fatal(err)
	}
	return day
}

func TestBusinessDays_of_three_years_are_all_but_weekends_and_national_holidays(t *testing.T) {
	t.Parallel()
	c := days(t)
	for year, holidays := range nationalHolidays {
		free := map[string]bool{}
		for _, h := range holidays {
			free[time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Format("2006-")+h] = true
		}
		for day := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() == year; day = day.AddDate(0, 0, 1) {
			text := day.Format(time.DateOnly)
			want := day.Weekday() != time.Saturday && day.Weekday() != time.Sunday && !free[text]
			if got := c.isBusinessDay(day); got != want {
				t.Errorf("%s, a %s: business day is %t", text, day.Weekday(), got)
			}
		}
	}
}

func TestConsciencia_Negra_is_a_holiday_since_2024(t *testing.T) {
	t.Parallel()
	c := days(t)
	for text, want := range map[string]bool{"2024-11-20": false, "2025-11-20": false,
		"2029-11-20": false} {
		if got := c.isBusinessDay(date(t, text)); got != want {
			t.Errorf("%s: business day is %t", text, got)
		}
	}
}

func TestDay_changes_at_midnight_in_Sao_Paulo_whatever_the_zone_of_the_moment(t *testing.T) {
	t.Parallel()
	c := days(t)
	tokyo := time.FixedZone("Tokyo", 9*60*60)
	for text, want := range map[string]string{
		"2026-11-24T02:59:59Z": "2026-11-23", "2026-11-24T03:00:00Z": "2026-11-24", // three hours behind UTC
		"2027-01-01T02:59:59Z": "2026-12-31", "2028-03-01T02:59:59Z": "2028-02-29",
		"2018-11-04T02:30:00Z": "2018-11-03", "2018-12-01T02:30:00Z": "2018-12-01", // summer time, abolished in 2019
	} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, moment := range []time.Time{at, at.In(tokyo)} {
			if got := c.day(moment).Format(time.DateOnly); got != want {
				t.Errorf("%s is on %s, want %s", moment, got, want)
			}
		}
	}
}

func TestCut_off_is_the_same_moment_in_every_zone(t *testing.T) {
	t.Parallel()
	c := days(t)
	before := time.Date(2026, 11, 23, 16, 59, 59, 999_999_999, time.UTC) // 13:59:59.999… in São Paulo
	for at, want := range map[time.Time]string{
		before: "2026-11-23", before.Add(1): "2026-11-24",
		before.In(time.FixedZone("", -11*60*60)): "2026-11-23", before.Add(1).In(time.FixedZone("", 14*60*60)): "2026-11-24",
	} {
		if got := c.start(at).Format(time.DateOnly); got != want {
			t.Errorf("%s begins on %s, want %s", at, got, want)
		}
	}
}

func TestWork_skips_free_days_that_follow_each_other(t *testing.T) {
	t.Parallel()
	c := days(t)
	for at, want := range map[string]string{
		"2026-04-02 13:59:59": "2026-04-02", "2026-04-02 14:00:00": "2026-04-06", // good friday and a weekend
		"2027-02-08 14:00:00": "2027-02-10", // carnival's Tuesday
		"2028-02-28 14:00:00": "2028-03-01", // the same on a leap day
		"2026-05-01 00:00:00": "2026-05-04",
	} {
		if got := c.start(saoPaulo(at)).Format(time.DateOnly); got != want {
			t.Errorf("work of %s begins on %s, want %s", at, got, want)
		}
	}
	if got := c.after(date(t, "2026-12-24"), 6).Format(time.DateOnly); got != "2027-01-05" {
		t.Errorf("six business days after christmas eve is %s", got)
	}
	if got := c.after(date(t, "2026-12-24"), 0).Format(time.DateOnly); got != "2026-12-24" {
		t.Errorf("no business day after christmas eve is %s", got)
	}
	if got := c.between(date(t, "2026-11-19"), date(t, "2026-11-24")); got != 2 {
		t.Errorf("%d business days lie between, want the 23rd and the 24th", got)
	}
	if got := c.between(date(t, "2026-11-24"), date(t, "2026-11-24")); got != 0 {
		t.Errorf("%d business days lie between a day and itself", got)
	}
}

func TestValidity_ends_with_the_seventh_day_in_Sao_Paulo(t *testing.T) {
	t.Parallel()
	c := days(t)
	for at, want := range map[string]string{
		"2026-11-21 00:00:00": "2026-11-28 23:59:59", "2026-11-21 23:59:59": "2026-11-28 23:59:59",
		"2026-11-22 00:00:00": "2026-11-29 23:59:59",
		"2026-12-28 15:00:00": "2027-01-04 23:59:59", "2028-02-25 08:00:00": "2028-03-03 23:59:59",
	} {
		got := c.validUntil(saoPaulo(at))
		if !got.Equal(saoPaulo(want)) || got.Location() != time.UTC {
			t.Errorf("an estimate of %s is valid until %s, want %s", at, got, want)
		}
	}
}

// TestCalendar_properties: after and between are each other's inverse, and start is the first business day there is.
func TestCalendar_properties(t *testing.T) {
	t.Parallel()
	c := days(t)
	rapid.Check(t, func(rt *rapid.T) {
		at := time.Unix(rapid.Int64Range(1_700_000_000, 2_500_000_000).Draw(rt, "at"), 0)
		n := rapid.IntRange(0, 400).Draw(rt, "n")
		start := c.start(at)
		if !c.isBusinessDay(start) || start.Before(c.day(at)) {
			rt.Fatalf("work of %s begins on %s", at, start)
		}
		for day := c.day(at).AddDate(0, 0, 1); day.Before(start); day = day.AddDate(0, 0, 1) {
			if c.isBusinessDay(day) {
				rt.Fatalf("work of %s begins on %s, though %s is free for it", at, start, day)
			}
		}
		end := c.after(start, n)
		if got := c.between(start, end); got != n || !c.isBusinessDay(end) {
			rt.Fatalf("%d business days after %s is %s, which are %d", n, start, end, got)
		}
	})
}

func TestCalendar_serves_many_callers_at_once(t *testing.T) {
	t.Parallel()
	c := days(t)
	want := c.after(date(t, "2026-01-02"), 500)
	var group sync.WaitGroup
	for range 8 {
		fresh := days(t)
		group.Go(func() {
			if got := c.after(date(t, "2026-01-02"), 500); !got.Equal(want) ||
				!fresh.after(date(t, "2026-01-02"), 500).Equal(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	group.Wait()
}
