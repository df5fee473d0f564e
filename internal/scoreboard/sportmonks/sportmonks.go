// Package sportmonks is the primary provider: SportMonks Football API v3.
package sportmonks

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

// Name is the provider's code in answers and metrics.
const Name = "sportmonks"

const (
	pageSize  = 50 // the most that is allowed
	mostPages = 20
	includes  = "participants.country;scores;state;periods;league;season;stage;round;group"
)

// Provider asks SportMonks.
type Provider struct {
	client *fetch.Client
	now    func() time.Time
}

// New makes a provider.
func New(base, token string, log *slog.Logger, now func() time.Time) *Provider {
	return &Provider{client: fetch.New(base, token, log.With("provider", Name)), now: now}
}

// Name returns the provider's code.
func (*Provider) Name() string { return Name }

// Board asks for the fixtures of three UTC days, as two days of São Paulo touch three, page by page.
func (p *Provider) Board(ctx context.Context, q scoreboard.Question) (scoreboard.Board, error) {
	board := scoreboard.Board{Competition: scoreboard.Competition{Name: scoreboard.CompetitionName(q.League, "")}}
	path := fmt.Sprintf("/fixtures/between/%s/%s", q.Day.Format(time.DateOnly),
		scoreboard.DayAfter(q.Day, 2).Format(time.DateOnly))
	for number := 1; number <= mostPages; number++ {
		page, fixtures, err := p.client.Page(ctx, path, url.Values{
			"filters": {"fixtureLeagues:" + strconv.FormatInt(q.League, 10)}, "include": {includes},
			"per_page": {strconv.Itoa(pageSize)}, "page": {strconv.Itoa(number)},
		})
		if err != nil {
			return scoreboard.Board{}, fmt.Errorf("sportmonks: %w", err)
		}
		for _, f := range fixtures {
			p.add(ctx, &board, fixture{f}, q.League)
		}
		if !page.Member("pagination").True("has_more") {
			return board, nil
		}
	}
	return scoreboard.Board{}, fmt.Errorf("sportmonks: more than %d pages", mostPages)
}

// add takes a fixture; one without id or time is left out, the others count.
func (p *Provider) add(ctx context.Context, board *scoreboard.Board, f fixture, league int64) {
	id, known := f.Int("id")
	at, timed := f.kickOff()
	if !known || id == 0 || !timed {
		p.client.LeftOut(ctx, f.Object)
		return
	}
	if f.state() == stateDeleted {
		return
	}
	game := f.game(p.now())
	game.ID, game.KickOff = id, at
	board.Games = append(board.Games, game)
	c := &board.Competition
	c.Name = cmp.Or(scoreboard.CompetitionName(league, f.Member("league").Text("name")), c.Name)
	c.Logo = cmp.Or(f.Member("league").Text("image_path"), c.Logo)
	c.Series = cmp.Or(f.Member("season").Text("name"), c.Series)
}
