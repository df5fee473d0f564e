// Package sportmonks is the primary provider: SportMonks Football API v3.
package sportmonks

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

const (
	pageSize  = 50 // the most that is allowed
	mostPages = 20
	includes  = "participants.country;scores;state;periods;league;season;stage;round;group"
)

// Provider asks SportMonks.
type Provider struct {
	client *fetch.Client
	log    *slog.Logger
	now    func() time.Time
}

// New makes a provider.
func New(base, token string, log *slog.Logger, now func() time.Time) *Provider {
	return &Provider{client: fetch.New(base, token), log: log, now: now}
}

// Name returns the provider's code in answers.
func (*Provider) Name() string { return "sportmonks" }

// page is one page of fixtures. Without a result there is no data at all.
type page struct {
	Data       []json.RawMessage `json:"data"`
	Pagination struct {
		HasMore bool `json:"has_more"`
	} `json:"pagination"`
}

// Board asks for the fixtures of three UTC days, as two days of São Paulo touch three, page by page.
func (p *Provider) Board(ctx context.Context, q scoreboard.Question) (scoreboard.Board, error) {
	board := scoreboard.Board{Competition: scoreboard.Competition{Name: scoreboard.CompetitionName(q.League, "")}}
	path := fmt.Sprintf("/fixtures/between/%s/%s", q.Day.Format(time.DateOnly),
		scoreboard.DayAfter(q.Day, 2).Format(time.DateOnly))
	for number := 1; number <= mostPages; number++ {
		var got page
		err := p.client.JSON(ctx, path, url.Values{
			"filters": {"fixtureLeagues:" + strconv.FormatInt(q.League, 10)}, "include": {includes},
			"per_page": {strconv.Itoa(pageSize)}, "page": {strconv.Itoa(number)},
		}, &got)
		if err != nil {
			return scoreboard.Board{}, fmt.Errorf("sportmonks: %w", err)
		}
		for _, raw := range got.Data {
			p.add(ctx, &board, raw, q.League)
		}
		if !got.Pagination.HasMore {
			return board, nil
		}
	}
	return scoreboard.Board{}, fmt.Errorf("sportmonks: more than %d pages", mostPages)
}

// add takes a fixture; one that cannot be read is left out, the others count.
func (p *Provider) add(ctx context.Context, board *scoreboard.Board, raw json.RawMessage, league int64) {
	var f fixture
	if err := json.Unmarshal(raw, &f); err != nil || f.ID == 0 || f.Timestamp == nil {
		p.log.WarnContext(ctx, "a fixture is left out: it cannot be read", "provider", p.Name(), "error", err)
		return
	}
	if f.StateID == stateDeleted {
		return
	}
	board.Games = append(board.Games, f.game(p.now()))
	if f.League != nil {
		board.Competition.Name = scoreboard.CompetitionName(league, f.League.Name)
		board.Competition.Logo = f.League.ImagePath
	}
	if f.Season != nil {
		board.Competition.Series = f.Season.Name
	}
}
