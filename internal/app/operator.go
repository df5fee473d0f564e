package app

import (
	"fmt"
	"net/http"

	"github.com/supplyhub/supplyhub/internal/console"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// Console is where the console is and what an operator enters to act in it; no token: it only shows.
type Console struct{ Address, Token string }

// Console returns how to reach the console of a serving api.
func (a *App) Console() Console {
	return Console{Address: a.adminAddress + console.Base, Token: string(a.operatorToken)}
}

// operatorHandler returns the operator listener of an api: the console next to what every process shows.
func (a *App) operatorHandler(checks telemetry.Checks) (http.Handler, error) {
	site, err := console.New(console.Deps{
		Requests: a.requests, Deliveries: a.Deliveries, Suppliers: a.Suppliers, Trackers: a.Trackers,
		Scores: consoleScores{a},
		Live:   a.figures, Token: string(a.operatorToken), Now: a.db.Now, Log: a.log, Cursors: a.cursors,
	})
	if err != nil {
		return nil, fmt.Errorf("set up console: %w", err)
	}
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: a.log})
	engine.Use(httpapi.Audited(a.log, auditedConsole()))
	consoleRoutes(engine, site)
	mux := http.NewServeMux()
	mux.Handle("/", telemetry.AdminHandler(a.registry, checks))
	mux.Handle(console.Base, engine)
	mux.Handle(console.Base+"/", engine)
	return telemetry.OnlyHosts(a.cfg.AdminHosts, mux), nil
}
