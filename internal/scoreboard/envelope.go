package scoreboard

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
)

const (
	onSuccess  = "SCOREBOARD"
	stampShape = "2006-01-02T15:04:05-07:00"
	statusText = "ATIVO"
	region     = "BR"
)

// envelope is the body of every answer of the route.
type envelope struct {
	ShortMessage   string    `json:"ShortMessage"`
	Response       any       `json:"Response"`
	Messages       []message `json:"Messages"`
	HTTPStatusCode int       `json:"HttpStatusCode"`
}

// message, response and gameJSON are the envelope of the interface, with its own names.
type message struct {
	Type    string `json:"Type"`
	Code    string `json:"Code"`
	Message string `json:"Message"`
}

type response struct {
	Competition struct {
		Competition
		Stage       Stage  `json:"stage"`
		StageNamePT string `json:"stage_name_pt"`
		Round       string `json:"round"`
	} `json:"competition"`
	Result struct {
		Scoreboard struct {
			UpdateRequired bool       `json:"update_required"`
			Games          []gameJSON `json:"games"`
		} `json:"scoreboard"`
	} `json:"result"`
	Metadata struct {
		Source     string `json:"source"`
		Region     string `json:"region"`
		LastUpdate string `json:"last_update"`
		Ping       struct {
			Active     bool   `json:"active"`
			Status     string `json:"status"`
			LastPingAt string `json:"last_ping_at"`
		} `json:"ping"`
	} `json:"metadata"`
}

type gameJSON struct {
	Game
	ScheduledAt   string `json:"scheduled_at"`
	ScheduledDate string `json:"scheduled_date"`
	ScheduledTime string `json:"scheduled_time"`
	StageNamePT   string `json:"stage_name_pt"`
	HomeScore     int    `json:"home_score"`
	AwayScore     int    `json:"away_score"`
}

// encode makes the successful answer of what a provider said just now.
func encode(b Board, day time.Time, source string, now time.Time) ([]byte, error) {
	games := within(b.Games, day)
	var r response
	c, board := &r.Competition, &r.Result.Scoreboard
	c.Competition, c.Stage = b.Competition, UnknownStage
	c.Logo = webAddress(c.Logo)
	board.Games = make([]gameJSON, len(games))
	for i, g := range games {
		at := g.KickOff.In(zone())
		g.Home.Logo, g.Away.Logo = webAddress(g.Home.Logo), webAddress(g.Away.Logo)
		board.UpdateRequired = board.UpdateRequired || g.Status == InProgress
		board.Games[i] = gameJSON{Game: g, ScheduledAt: at.In(promised()).Format(stampShape),
			ScheduledDate: at.Format(time.DateOnly), ScheduledTime: at.Format("15:04"), StageNamePT: g.Stage.NamePT(),
			HomeScore: max(g.Score[0], 0), AwayScore: max(g.Score[1], 0)}
	}
	for _, g := range games { // the first that is not finished, else the last
		if c.Stage, c.Round = g.Stage, g.Round; g.Status != Finished {
			break
		}
	}
	c.StageNamePT = c.Stage.NamePT()
	stamp := now.In(promised()).Format(stampShape)
	r.Metadata.Source, r.Metadata.Region, r.Metadata.LastUpdate = source, region, stamp
	r.Metadata.Ping.Active, r.Metadata.Ping.Status, r.Metadata.Ping.LastPingAt = true, statusText, stamp
	body, err := json.Marshal(envelope{ShortMessage: onSuccess, Response: r, Messages: []message{}, HTTPStatusCode: 200})
	return body, errs.Doing("encode scoreboard", err)
}

// failed returns the body of an answer without a scoreboard.
func failed(status int, short, text string) envelope {
	return envelope{ShortMessage: short, Messages: []message{{Type: "Error", Code: strconv.Itoa(status), Message: text}},
		HTTPStatusCode: status}
}

// format writes a number as the envelope has it.
func format(n int64) string { return strconv.FormatInt(n, 10) }
