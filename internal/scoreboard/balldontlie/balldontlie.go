// Package balldontlie is the fallback provider: the BALLDONTLIE FIFA World Cup API. It knows the World Cups of 2018,
// 2022 and 2026.
package balldontlie

import (
	"bytes"
	"context"
	"encoding/json"
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

const (
	pageSize  = 100 // the most that is allowed
	mostPages = 10
	undecided = "A definir"
)

// Provider asks BALLDONTLIE.
type Provider struct {
	client *fetch.Client
	log    *slog.Logger
}

// New makes a provider.
func New(base, key string, log *slog.Logger) *Provider {
	return &Provider{client: fetch.New(base, key), log: log}
}

// Name returns the provider's code in answers.
func (*Provider) Name() string { return "balldontlie" }

type page struct {
	Data []json.RawMessage `json:"data"`
	Meta struct {
		NextCursor json.RawMessage `json:"next_cursor"` // a number or a text
	} `json:"meta"`
}

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
		var got page
		if err := p.client.JSON(ctx, "/matches", query, &got); err != nil {
			// Whatever it is, even a rate limit, there is no other provider.
			return scoreboard.Board{},
				fmt.Errorf("balldontlie: %s", err) //nolint:errorlint // on purpose: a rate limit ends here
		}
		for _, raw := range got.Data {
			p.add(ctx, &board, raw)
		}
		next := string(bytes.Trim(got.Meta.NextCursor, `"`))
		if next == "" || next == "null" || next == cursor || len(got.Data) == 0 {
			return board, nil
		}
		cursor = next
	}
	return scoreboard.Board{}, fmt.Errorf("balldontlie: more than %d pages", mostPages)
}

type match struct {
	ID          int64      `json:"id"`
	DateTime    *time.Time `json:"datetime"`
	Status      string     `json:"status"`
	Stage       *named     `json:"stage"`
	Group       *named     `json:"group"`
	Home        *team      `json:"home_team"`
	Away        *team      `json:"away_team"`
	HomeSource  *source    `json:"home_team_source"`
	AwaySource  *source    `json:"away_team_source"`
	HomeScore   *int       `json:"home_score"`
	AwayScore   *int       `json:"away_score"`
	RoundNumber *int       `json:"round_number"`
	RoundName   *string    `json:"round_name"`
}

type named struct {
	Name string `json:"name"`
}

type team struct {
	ID           int64  `json:"id"`
	Name         string `json:"name"`
	Abbreviation string `json:"abbreviation"`
	CountryCode  string `json:"country_code"`
}

type source struct {
	Placeholder string `json:"placeholder"`
	Description string `json:"description"`
}

// add takes a match; one that cannot be read is left out, the others count.
func (p *Provider) add(ctx context.Context, board *scoreboard.Board, raw json.RawMessage) {
	var m match
	if err := json.Unmarshal(raw, &m); err != nil || m.ID == 0 || m.DateTime == nil {
		p.log.WarnContext(ctx, "a match is left out: it cannot be read", "provider", p.Name(), "error", err)
		return
	}
	board.Games = append(board.Games, m.game())
}

func (m match) game() scoreboard.Game {
	status, progress := statusOf(m.Status)
	return scoreboard.Game{
		ID: strconv.FormatInt(m.ID, 10), KickOff: *m.DateTime, Stage: m.stage(), Round: m.round(),
		Home: side(m.Home, m.HomeSource), Away: side(m.Away, m.AwaySource),
		Score: [2]int{orZero(m.HomeScore), orZero(m.AwayScore)}, Status: status, Progress: progress,
	}
}

func orZero(n *int) int {
	if n == nil {
		return 0
	}
	return *n
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

// stage reads the stage's name, whole or by a part of it.
func (m match) stage() scoreboard.Stage {
	if m.Stage == nil {
		if m.Group != nil {
			return scoreboard.GroupStage
		}
		return scoreboard.UnknownStage
	}
	if known := scoreboard.StageOf(m.Stage.Name); known != scoreboard.UnknownStage {
		return known
	}
	name := strings.ToLower(m.Stage.Name)
	for _, rule := range []struct {
		part  string
		stage scoreboard.Stage
	}{
		{"32", scoreboard.RoundOf32}, {"16", scoreboard.RoundOf16}, {"quarter", scoreboard.QuarterFinals},
		{"semi", scoreboard.SemiFinals},
		{"third", scoreboard.ThirdPlaceFinal}, {"3rd", scoreboard.ThirdPlaceFinal},
		{"group", scoreboard.GroupStage}, {"final", scoreboard.Final},
	} {
		if strings.Contains(name, rule.part) {
			return rule.stage
		}
	}
	return scoreboard.UnknownStage
}

func (m match) round() string {
	switch {
	case m.RoundName != nil:
		return *m.RoundName
	case m.RoundNumber != nil:
		return strconv.Itoa(*m.RoundNumber)
	default:
		return ""
	}
}

// side returns the team, or what is known of an undecided one.
func side(t *team, s *source) scoreboard.Team {
	if t != nil {
		name := strings.TrimSpace(t.Name)
		return scoreboard.Team{ID: t.ID, Name: name, NamePT: scoreboard.NationalTeam(name, t.Abbreviation, t.CountryCode),
			Acronym: t.Abbreviation}
	}
	name := undecided
	if s != nil && s.Placeholder != "" {
		name = s.Placeholder
	}
	if s != nil && s.Description != "" {
		name = s.Description
	}
	return scoreboard.Team{Name: name, NamePT: name}
}
