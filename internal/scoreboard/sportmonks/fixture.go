package sportmonks

import (
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
)

// fixture is what is used of SportMonks' entity; relations may be null.
type fixture struct {
	ID           int64         `json:"id"`
	StateID      int           `json:"state_id"`
	Name         string        `json:"name"`
	Placeholder  bool          `json:"placeholder"`
	Timestamp    *int64        `json:"starting_at_timestamp"`
	Participants []participant `json:"participants"`
	Scores       []score       `json:"scores"`
	Periods      []period      `json:"periods"`
	League       *struct {
		Name      string `json:"name"`
		ImagePath string `json:"image_path"`
		SubType   string `json:"sub_type"`
	} `json:"league"`
	Season *struct {
		Name string `json:"name"`
	} `json:"season"`
	Stage *struct {
		Name   string `json:"name"`
		TypeID int    `json:"type_id"`
	} `json:"stage"`
	Round *struct {
		Name string `json:"name"`
	} `json:"round"`
	Group *struct {
		Name string `json:"name"`
	} `json:"group"`
}

type participant struct {
	ID        int64  `json:"id"`
	Name      string `json:"name"`
	ShortCode string `json:"short_code"`
	ImagePath string `json:"image_path"`
	Type      string `json:"type"`
	Meta      struct {
		Location string `json:"location"`
	} `json:"meta"`
	Country *struct {
		FIFAName string `json:"fifa_name"`
		ISO3     string `json:"iso3"`
	} `json:"country"`
}

type score struct {
	Description string `json:"description"`
	Score       struct {
		Goals       int    `json:"goals"`
		Participant string `json:"participant"`
	} `json:"score"`
}

const (
	typeGroupStage = 223
	typeQualifying = 225
)

func (f fixture) game(now time.Time) scoreboard.Game {
	status := statusOf(f.StateID)
	minute := f.minute(status, now)
	home, away := f.team("home", 0), f.team("away", 1)
	g := scoreboard.Game{
		ID: strconv.FormatInt(f.ID, 10), KickOff: time.Unix(*f.Timestamp, 0), Stage: f.stage(), Home: home, Away: away,
		Score: [2]int{f.goals("home"), f.goals("away")}, Status: status, Minute: minute, Progress: f.progress(status, minute),
	}
	if f.Round != nil {
		g.Round = f.Round.Name
	}
	return g
}

// stage goes by the stage's name; a type is both "Regular Season" and "Group Stage".
func (f fixture) stage() scoreboard.Stage {
	if f.Stage == nil {
		return scoreboard.UnknownStage
	}
	if known := scoreboard.StageOf(f.Stage.Name); known != scoreboard.UnknownStage {
		return known
	}
	switch {
	case f.Stage.TypeID == typeQualifying:
		return scoreboard.Qualification
	case f.Stage.TypeID == typeGroupStage && f.Group != nil:
		return scoreboard.GroupStage
	case f.Stage.TypeID == typeGroupStage && f.League != nil && f.League.SubType == "domestic":
		return scoreboard.RegularSeason
	default:
		return scoreboard.UnknownStage
	}
}

// team returns the side's participant, wherever it is in the list; of an undecided match a half of its name.
func (f fixture) team(location string, half int) scoreboard.Team {
	for _, p := range f.Participants {
		if p.Meta.Location != location {
			continue
		}
		name := strings.TrimSpace(p.Name)
		team := scoreboard.Team{ID: p.ID, Name: name, NamePT: name, Acronym: p.ShortCode, Logo: p.ImagePath}
		if p.Type == "national" {
			codes := []string{p.ShortCode}
			if p.Country != nil {
				codes = append(codes, p.Country.FIFAName, p.Country.ISO3)
			}
			team.NamePT = scoreboard.NationalTeam(name, codes...)
		}
		return team
	}
	if halves := strings.SplitN(f.Name, " vs ", 2); len(halves) == 2 {
		name := strings.TrimSpace(halves[half])
		return scoreboard.Team{Name: name, NamePT: name}
	}
	return scoreboard.Team{}
}

// goals returns the running score; shoot-out goals stay out of it.
func (f fixture) goals(side string) int {
	for _, description := range []string{"CURRENT", "2ND_HALF", "1ST_HALF"} {
		for _, s := range f.Scores {
			if s.Description == description && s.Score.Participant == side {
				return s.Score.Goals
			}
		}
	}
	return 0
}
