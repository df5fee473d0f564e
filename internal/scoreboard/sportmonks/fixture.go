package sportmonks

import (
	"cmp"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

// fixture is SportMonks' entity. All of it but id and time is optional.
type fixture struct{ fetch.Object }

const (
	typeGroupStage = 223
	typeQualifying = 225
)

// kickOff returns the start by its timestamp, else by its text, which is in UTC.
func (f fixture) kickOff() (at time.Time, known bool) {
	if seconds, known := f.Int("starting_at_timestamp"); known {
		return time.Unix(seconds, 0), true
	}
	at, err := time.Parse(time.DateTime, f.Text("starting_at"))
	return at, err == nil
}

// state returns the state's number.
func (f fixture) state() int64 {
	if state, known := f.Int("state_id"); known {
		return state
	}
	state, _ := f.Member("state").Int("id")
	return state
}

func (f fixture) game(now time.Time) scoreboard.Game {
	status := statusOf(f.state())
	minute := f.minute(status, now)
	home, away := f.team("home", "away", 0), f.team("away", "home", 1)
	return scoreboard.Game{
		Stage: f.stage(), Round: f.Member("round").Text("name"), Home: home, Away: away,
		Score: [2]int{f.goals("home"), f.goals("away")}, Status: status, Minute: minute, Progress: f.progress(status, minute),
	}
}

// stage reads the names of stage and round; a type is both "Regular Season" and "Group Stage".
func (f fixture) stage() scoreboard.Stage {
	stage := f.Member("stage")
	if known := scoreboard.StageOf(stage.Text("name"), f.Member("round").Text("name")); known != scoreboard.UnknownStage {
		return known
	}
	kind, _ := stage.Int("type_id")
	switch {
	case kind == typeQualifying:
		return scoreboard.Qualification
	case kind == typeGroupStage && f.Member("group") != nil:
		return scoreboard.GroupStage
	case kind == typeGroupStage && f.Member("league").Text("sub_type") == "domestic":
		return scoreboard.RegularSeason
	default:
		return scoreboard.UnknownStage
	}
}

// team returns the side's participant; of an undecided match a half of its name.
func (f fixture) team(side, other string, half int) scoreboard.Team {
	halves := strings.SplitN(f.Text("name"), " vs ", 2)
	called := ""
	if len(halves) == 2 {
		called = strings.TrimSpace(halves[half])
	}
	p := f.participant(side, other, called)
	id, _ := p.Int("id")
	team := scoreboard.Team{ID: id, Name: cmp.Or(p.Text("name"), called), Acronym: p.Text("short_code"),
		Logo: p.Text("image_path")}
	team.NamePT = team.Name
	if p.Text("type") == "national" {
		country := p.Member("country")
		team.NamePT = scoreboard.NationalTeam(team.Name, team.Acronym, country.Text("fifa_name"), country.Text("iso3"))
	}
	return team
}

// participant returns the side's, wherever it is in the list. Of those that do not say where they play it is the one
// that is called so, else the only one when the other side is known.
func (f fixture) participant(side, other, called string) fetch.Object {
	var silent, rest []fetch.Object
	for _, p := range f.List("participants") {
		switch location := p.Member("meta").Text("location"); {
		case location == side:
			return p
		case location == other:
			rest = append(rest, p)
		case called != "" && p.Text("name") == called:
			return p
		default:
			silent = append(silent, p)
		}
	}
	if len(silent) == 1 && len(rest) == 1 {
		return silent[0]
	}
	return nil
}

// goals returns the running score; shoot-out goals stay out of it.
func (f fixture) goals(side string) int {
	for _, description := range []string{"CURRENT", "2ND_HALF", "1ST_HALF"} {
		for _, s := range f.List("scores") {
			score := s.Member("score")
			if goals, known := score.Int("goals"); known && s.Text("description") == description &&
				score.Text("participant") == side {
				return int(goals)
			}
		}
	}
	return 0
}
