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

// message, response and the types below are the envelope of the interface, with its own names.
type message struct {
	Type    string `json:"Type"`
	Code    string `json:"Code"`
	Message string `json:"Message"`
}

type response struct {
	Competition competitionJSON `json:"competition"`
	Result      resultJSON      `json:"result"`
	Metadata    metadataJSON    `json:"metadata"`
}

type competitionJSON struct {
	Name        string `json:"name"`
	Series      string `json:"series"`
	Stage       Stage  `json:"stage"`
	StageNamePT string `json:"stage_name_pt"`
	Round       string `json:"round"`
	Logo        string `json:"logo"`
}

type resultJSON struct {
	Scoreboard struct {
		UpdateRequired bool       `json:"update_required"`
		Games          []gameJSON `json:"games"`
	} `json:"scoreboard"`
}

type gameJSON struct {
	MatchID       string `json:"match_id"`
	ScheduledAt   string `json:"scheduled_at"`
	ScheduledDate string `json:"scheduled_date"`
	ScheduledTime string `json:"scheduled_time"`
	Stage         Stage  `json:"stage"`
	StageNamePT   string `json:"stage_name_pt"`
	Home          Team   `json:"home_team"`
	Away          Team   `json:"away_team"`
	HomeScore     int    `json:"home_score"`
	AwayScore     int    `json:"away_score"`
	Status        Status `json:"status"`
	Minute        int    `json:"minute"`
	Progress      int    `json:"progress_percentage"`
}

type metadataJSON struct {
	Source     string   `json:"source"`
	Region     string   `json:"region"`
	LastUpdate string   `json:"last_update"`
	Ping       pingJSON `json:"ping"`
}

type pingJSON struct {
	Active     bool   `json:"active"`
	Status     string `json:"status"`
	LastPingAt string `json:"last_ping_at"`
}

// encode makes the successful answer of what a provider said just now.
func encode(b Board, day time.Time, source string, now time.Time) ([]byte, error) {
	games := within(b.Games, day)
	var r response
	r.Competition = competitionJSON{Name: b.Competition.Name, Series: b.Competition.Series,
		Logo: webAddress(b.Competition.Logo), Stage: UnknownStage}
	r.Result.Scoreboard.Games = make([]gameJSON, len(games))
	for i, g := range games {
		at := g.KickOff.In(zone())
		g.Home.Logo, g.Away.Logo = webAddress(g.Home.Logo), webAddress(g.Away.Logo)
		r.Result.Scoreboard.UpdateRequired = r.Result.Scoreboard.UpdateRequired || g.Status == InProgress
		r.Result.Scoreboard.Games[i] = gameJSON{
			MatchID: g.ID, ScheduledAt: at.In(promised()).Format(stampShape), ScheduledDate: at.Format(time.DateOnly),
			ScheduledTime: at.Format("15:04"),
			Stage:         g.Stage, StageNamePT: g.Stage.NamePT(), Home: g.Home, Away: g.Away, HomeScore: max(g.Score[0], 0),
			AwayScore: max(g.Score[1], 0),
			Status:    g.Status, Minute: g.Minute, Progress: g.Progress,
		}
	}
	if current, found := currentGame(games); found {
		r.Competition.Stage, r.Competition.Round = current.Stage, current.Round
	}
	r.Competition.StageNamePT = r.Competition.Stage.NamePT()
	stamp := now.In(promised()).Format(stampShape)
	r.Metadata = metadataJSON{Source: source, Region: region, LastUpdate: stamp,
		Ping: pingJSON{Active: true, Status: statusText, LastPingAt: stamp}}
	body, err := json.Marshal(envelope{ShortMessage: onSuccess, Response: r, Messages: []message{}, HTTPStatusCode: 200})
	return body, errs.Doing("encode scoreboard", err)
}

// currentGame returns the competition's stage and round: the first that is not finished, else the last.
func currentGame(games []Game) (Game, bool) {
	for _, g := range games {
		if g.Status != Finished {
			return g, true
		}
	}
	if len(games) == 0 {
		return Game{}, false
	}
	return games[len(games)-1], true
}

// failed returns the body of an answer without a scoreboard.
func failed(status int, short, text string) envelope {
	return envelope{ShortMessage: short, Messages: []message{{Type: "Error", Code: strconv.Itoa(status), Message: text}},
		HTTPStatusCode: status}
}

// format writes a number as the envelope has it.
func format(n int64) string { return strconv.FormatInt(n, 10) }
