// Package balldontlie is the fallback provider: the BALLDONTLIE FIFA World Cup API. It knows the World Cups of 2018,
// 2022 and 2026.
package balldontlie

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

// Name is the provider's code in answers and metrics.
const Name = "balldontlie"

const (
	pageSize  = 100 // the most that is allowed
	mostPages = 10
	undecided = "A definir"
)

// Provider asks BALLDONTLIE.
type Provider struct{ client *fetch.Client }

// New makes a provider.
func New(base, key string, log *slog.Logger) *Provider {
	return &Provider{client: fetch.New(base, key, log.With("provider", Name))}
}

// Name returns the provider's code.
func (*Provider) Name() string { return Name }

// Board returns the season's matches: there is no filter by date.
func (p *Provider) Board(ctx context.Context, q scoreboard.Question) (scoreboard.Board, error) {
	year := q.Day.Year()
	if !slices.Contains([]int{2018, 2022, 2026}, year) {
		return scoreboard.Board{}, fmt.Errorf("balldontlie: there is no World Cup in %d", year)
	}
	season := strconv.Itoa(year)
	board := scoreboard.Board{Competition: scoreboard.Competition{Name: scoreboard.WorldCup, Series: season}}
	cursor := ""
	for range mostPages {
		query := url.Values{"seasons[]": {season}, "per_page": {strconv.Itoa(pageSize)}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		page, matches, err := p.client.Page(ctx, "/matches", query)
		if err != nil {
			return scoreboard.Board{}, fmt.Errorf("balldontlie: %w", err)
		}
		for _, m := range matches {
			p.add(ctx, &board, match{m})
		}
		next := page.Member("meta").Text("next_cursor") // a number or a text
		if next == "" || next == cursor || len(matches) == 0 {
			return board, nil
		}
		cursor = next
	}
	return scoreboard.Board{}, fmt.Errorf("balldontlie: more than %d pages", mostPages)
}

// match is BALLDONTLIE's. All of it but id and datetime is optional.
type match struct{ fetch.Object }

// add takes a match; one without id or time is left out, the others count.
func (p *Provider) add(ctx context.Context, board *scoreboard.Board, m match) {
	id, known := m.Int("id")
	at, timed := m.kickOff()
	if !known || id == 0 || !timed {
		p.client.LeftOut(ctx, m.Object)
		return
	}
	game := m.game()
	game.ID, game.KickOff = id, at
	board.Games = append(board.Games, game)
}

// kickOff returns the start, in UTC when it names no zone.
func (m match) kickOff() (at time.Time, known bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if at, err := time.Parse(layout, m.Text("datetime")); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

func (m match) game() scoreboard.Game {
	status, progress := statusOf(m.Text("status"))
	homeScore, _ := m.Int("home_score")
	awayScore, _ := m.Int("away_score")
	return scoreboard.Game{
		Stage: m.stage(), Round: cmp.Or(m.Text("round_name"), m.Text("round_number")),
		Home: m.side("home_team"), Away: m.side("away_team"), Score: [2]int{int(homeScore), int(awayScore)},
		Status: status, Progress: progress,
	}
}

func statusOf(text string) (status scoreboard.Status, progress int) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "scheduled":
		return scoreboard.Scheduled, 0
	case "in_progress":
		return scoreboard.InProgress, 50
	case "completed":
		return scoreboard.Finished, 100
	case "postponed":
		return scoreboard.Postponed, 0
	case "cancelled", "canceled":
		return scoreboard.Cancelled, 0
	default:
		return scoreboard.Unknown, 0
	}
}

// stage reads the names of stage and round, whole or by a part of the stage's.
func (m match) stage() scoreboard.Stage {
	name := strings.ToLower(m.Member("stage").Text("name"))
	if known := scoreboard.StageOf(name, m.Text("round_name")); known != scoreboard.UnknownStage {
		return known
	}
	for _, rule := range []struct {
		part  string
		stage scoreboard.Stage
	}{
		{"32", scoreboard.RoundOf32}, {"16", scoreboard.RoundOf16}, {"quarter", scoreboard.QuarterFinals},
		{"semi", scoreboard.SemiFinals}, {"group", scoreboard.GroupStage}, {"final", scoreboard.Final},
	} {
		if strings.Contains(name, rule.part) {
			return rule.stage
		}
	}
	if m.Member("stage") == nil && m.Member("group") != nil {
		return scoreboard.GroupStage
	}
	return scoreboard.UnknownStage
}

// side returns the team, or what is known of an undecided one.
func (m match) side(name string) scoreboard.Team {
	team, source := m.Member(name), m.Member(name+"_source")
	if team == nil {
		name := cmp.Or(source.Text("description"), source.Text("placeholder"), undecided)
		return scoreboard.Team{Name: name, NamePT: name}
	}
	id, _ := team.Int("id")
	code := team.Text("abbreviation")
	return scoreboard.Team{ID: id, Name: team.Text("name"), Acronym: code,
		NamePT: scoreboard.NationalTeam(team.Text("name"), code, team.Text("country_code"))}
}
