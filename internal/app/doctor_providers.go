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

// Both providers can answer this question: the matches of one day of a World Cup. worldCup is the first one's number.
const (
	cupDay   = "2022-11-20"
	worldCup = 732
)

// providers asks each provider of the scoreboard once, if this process has a key for it. A worker needs no key.
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
		d.lacks("scoreboard", "set PULSE_API_KEY if you want it", "it is off: every call gets 503")
	} else {
		d.Well("scoreboard", "callers have a key")
	}
	now := time.Now
	if d.db != nil {
		now = d.db.Now
	}
	d.provider(ctx, primary(d.cfg, d.log, now), "provider sportmonks", "SPORTMONKS_API_TOKEN",
		"set SPORTMONKS_API_TOKEN if you want the scoreboard", "without a token the scoreboard answers 500")
	d.provider(ctx, fallback(d.cfg, d.log), "provider balldontlie", "FALLBACK_API_KEY",
		"set FALLBACK_API_KEY for a second provider", "without a key there is no fallback when the first one refuses")
}

// elsewhere reports whether the api at HTTP_ADDR has a scoreboard although this environment has none. Such an api was
// started with another environment, or as a demo. It answers a call without a key by 401; an api without a scoreboard
// answers 503.
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
	d.Well("scoreboard", "the api at %s has a key for its callers; this environment has none", address)
	return true
}

// lacks prints that a part of the scoreboard is not configured. Only the api serves the scoreboard.
func (d *examination) lacks(name, todo, detail string) {
	if d.role == config.ForWorker {
		d.Well(name, "not configured here, and no worker needs it")
		return
	}
	d.Say(doctor.Warning, name, todo, "%s", detail)
}

// provider prints how a provider answers a call with its key, or that there is no key for it.
func (d *examination) provider(ctx context.Context, p scoreboard.Provider, name, variable, todo, without string) {
	if p == nil {
		d.lacks(name, todo, without)
		return
	}
	day, _ := time.Parse(time.DateOnly, cupDay) // a constant
	_, err := p.Board(ctx, scoreboard.Question{League: worldCup, Day: day})
	switch {
	case err != nil && strings.Contains(err.Error(), (&fetch.RateLimited{}).Error()):
		d.Say(doctor.Warning, name, "wait, or ask the provider for a higher limit", "it accepts the key: %v", err)
	case err != nil && (strings.Contains(err.Error(), "status 401") || strings.Contains(err.Error(), "status 403")):
		d.Say(doctor.Broken, name, "correct "+variable, "it refuses the key: %v", err)
	case err != nil:
		d.Say(doctor.Broken, name, "check whether this machine can reach the provider", "%v", err)
	default:
		d.Well(name, "it answers and accepts the key")
	}
}
