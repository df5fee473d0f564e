package app

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/doctor"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

// A question that both providers can answer: a day of a World Cup, and its number at the first one.
const (
	cupDay   = "2022-11-20"
	worldCup = 732
)

// providers asks each of the scoreboard's providers once, of whom this process has a key. A worker needs none.
func (d *examination) providers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, doctor.Timeout)
	defer cancel()
	if len(d.cfg.ScoreboardKeys()) == 0 && d.cfg.PrimaryToken == "" && d.cfg.FallbackKey == "" {
		if !d.elsewhere(ctx) {
			d.Well("scoreboard", "not configured")
		}
		return
	}
	if len(d.cfg.ScoreboardKeys()) == 0 {
		d.lacks("scoreboard", "set PULSE_API_KEY if it is wanted", "it is off: every call is answered 503")
	} else {
		d.Well("scoreboard", "it has a key for its callers")
	}
	day, _ := time.Parse(time.DateOnly, cupDay) // a constant
	question := scoreboard.Question{League: worldCup, Day: day}
	now := time.Now
	if d.db != nil {
		now = d.db.Now
	}
	if first := primary(d.cfg, d.log, now); first != nil {
		_, err := first.Board(ctx, question)
		d.sayProvider("provider sportmonks", "SPORTMONKS_API_TOKEN", err)
	} else {
		d.lacks("provider sportmonks", "set SPORTMONKS_API_TOKEN if the scoreboard is wanted",
			"without a token the scoreboard answers 500")
	}
	if second := fallback(d.cfg, d.log); second != nil {
		_, err := second.Board(ctx, question)
		d.sayProvider("provider balldontlie", "FALLBACK_API_KEY", err)
	} else {
		d.lacks("provider balldontlie", "set FALLBACK_API_KEY for a second provider",
			"without a key there is no fallback when the first one refuses")
	}
}

// elsewhere reports whether the api that runs at HTTP_ADDR has a scoreboard although this environment has none: it was
// started with another environment, or as a demo. Without a key it answers 503 where it has none, and 401 where it has.
func (d *examination) elsewhere(ctx context.Context) bool {
	if d.role == config.ForWorker {
		return false
	}
	address := ownURL(d.cfg.HTTPAddr)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/pulse/scoreboard", nil)
	if err != nil {
		return false
	}
	if status, _, err := ask(request); err != nil || status != http.StatusUnauthorized {
		return false
	}
	d.Well("scoreboard", "the api at %s has a key for its callers, which this environment has not", address)
	return true
}

// lacks prints that something of the scoreboard is not configured, which only the api serves.
func (d *examination) lacks(name, todo, detail string) {
	if d.role == config.ForWorker {
		d.Well(name, "not configured here, and no worker needs it")
		return
	}
	d.Say(doctor.Warning, name, todo, "%s", detail)
}

// sayProvider prints what a provider answered when it was asked with its key.
func (d *examination) sayProvider(name, variable string, err error) {
	switch {
	case err != nil && strings.Contains(err.Error(), (&fetch.RateLimited{}).Error()):
		d.Say(doctor.Warning, name, "wait, or ask the provider for more", "it knows the key: %v", err)
	case err != nil && (strings.Contains(err.Error(), "status 401") || strings.Contains(err.Error(), "status 403")):
		d.Say(doctor.Broken, name, "correct "+variable, "it refuses the key: %v", err)
	case err != nil:
		d.Say(doctor.Broken, name, "look whether the provider is reached from here", "%v", err)
	default:
		d.Well(name, "it answers and knows the key")
	}
}
