package scoreboard

import (
	"cmp"
	"net/url"
	"slices"
	"sync"
	"time"
	_ "time/tzdata" // São Paulo's history, wherever this runs
)

// A match in our words, which the providers' packages translate into: they differ in what a state, a stage or a
// minute is, and nothing behind this file knows that.

// Status is the state of a match.
type Status string

// All statuses, in the order in which games are shown.
const (
	InProgress Status = "IN_PROGRESS"
	Scheduled  Status = "SCHEDULED"
	Finished   Status = "FINISHED"
	Suspended  Status = "SUSPENDED"
	Postponed  Status = "POSTPONED"
	Abandoned  Status = "ABANDONED"
	Cancelled  Status = "CANCELLED"
	Unknown    Status = "UNKNOWN"
)

// rank returns the place of the status in the order of the board: games in progress come first.
func (s Status) rank() int {
	return slices.Index([]Status{InProgress, Scheduled, Finished, Suspended, Postponed, Abandoned, Cancelled, Unknown}, s)
}

// Team is one side of a match. NamePT is the Portuguese name of a national team, else Name.
type Team struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	NamePT  string `json:"name_pt"`
	Acronym string `json:"acronym"`
	Logo    string `json:"logo"`
}

// Game is one match as a provider reports it.
type Game struct {
	ID       int64     `json:"match_id,string"`
	KickOff  time.Time `json:"-"`
	Stage    Stage     `json:"stage"`
	Round    string    `json:"-"`
	Home     Team      `json:"home_team"`
	Away     Team      `json:"away_team"`
	Score    [2]int    `json:"-"` // home, away; without a penalty shoot-out
	Status   Status    `json:"status"`
	Minute   int       `json:"minute"`              // 0 before the start
	Progress int       `json:"progress_percentage"` // percent
}

// Competition is what the games belong to.
type Competition struct {
	Name   string `json:"name"`
	Series string `json:"series"` // season
	Logo   string `json:"logo"`
}

// Board is a provider's answer: all games it knows around the asked days.
type Board struct {
	Competition Competition
	Games       []Game
}

// zone is São Paulo's with the daylight-saving time that it had until 2019: it decides which day a moment belongs to.
var zone = sync.OnceValue(func() *time.Location {
	location, err := time.LoadLocation("America/Sao_Paulo")
	if err != nil {
		panic(err) // time/tzdata is linked
	}
	return location
})

// promised returns the offset that the interface promises for written moments, also where the civil clock showed
// another.
func promised() *time.Location { return time.FixedZone("-03:00", -3*60*60) }

// Day returns the civil day of a moment in São Paulo: its first moment.
func Day(at time.Time) time.Time {
	y, m, d := at.In(zone()).Date()
	return startOf(y, m, d)
}

// DayAfter returns the day so many days after day.
func DayAfter(day time.Time, days int) time.Time {
	y, m, d := day.Date()
	return startOf(y, m, d+days)
}

// startOf returns the first moment of a day: 01:00 where daylight saving skipped midnight.
func startOf(y int, m time.Month, d int) time.Time {
	start := time.Date(y, m, d, 0, 0, 0, 0, zone())
	if noon := time.Date(y, m, d, 12, 0, 0, 0, zone()); start.Day() != noon.Day() {
		start = start.Add(time.Hour)
	}
	return start
}

// webAddress returns the address when it is on the web, else nothing: callers put it into pages.
func webAddress(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return ""
	}
	return text
}

// within keeps the games of the day and the next, each id once, in the order in which they are shown.
func within(games []Game, day time.Time) []Game {
	end := DayAfter(day, 2)
	seen := map[int64]bool{}
	kept := slices.DeleteFunc(slices.Clone(games), func(g Game) bool {
		out := seen[g.ID] || g.KickOff.Before(day) || !g.KickOff.Before(end)
		seen[g.ID] = true
		return out
	})
	slices.SortStableFunc(kept, func(a, b Game) int {
		return cmp.Or(cmp.Compare(a.Status.rank(), b.Status.rank()), a.KickOff.Compare(b.KickOff), cmp.Compare(a.ID, b.ID))
	})
	return kept
}
