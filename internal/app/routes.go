package app

import (
	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/console"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/portal"
	"github.com/supplyhub/supplyhub/internal/products"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// The table of contents: method, path, what the audit log calls a change, who may call, handler. Nothing is decided
// here. Credentials are checked before the body may be large.

// requestsRoute is where requests come in.
const requestsRoute = "/api/material-requests"

// scoreboardRoute is where the scoreboard is asked for; every answer of it has the quota's headers.
const scoreboardRoute = "/pulse/scoreboard"

// routes is the table of contents of the service: method, path, who may call, handler. Nothing else is here.
func (a *App) routes(r *gin.Engine) {
	did := a.audited
	auth := supplierauth.Handlers{Service: a.Suppliers}
	requests, catalogue := materials.Handlers{Service: a.materials, Bearer: auth}, products.Handlers{Service: a.products}
	handle, docs := httpapi.Handle, httpapi.Docs(telemetry.Version())
	authErrors := func(h httpapi.Handler) gin.HandlerFunc { return httpapi.HandleWith(h, supplierauth.RenderError) }

	r.POST("/api/external-auth/token", authErrors(auth.Token))
	r.POST("/api/external-auth/refresh", authErrors(auth.Refresh))
	r.POST("/api/external-auth/revoke", did("session.revoke"), authErrors(auth.Revoke))
	r.GET("/api/external/ping", auth.Bearer(""), handle(auth.Ping))
	r.GET("/.well-known/jwks.json", handle(auth.JWKS))
	r.GET("/", handle(httpapi.Home(telemetry.Version())))
	r.GET("/openapi.json", handle(httpapi.OpenAPI(telemetry.Version())))
	r.GET("/docs", handle(docs))
	r.GET("/docs/*file", handle(docs))

	r.POST(requestsRoute, auth.Bearer(caller.ScopeMaterialRequests), handle(requests.Create))
	r.GET("/api/material-requests", auth.Bearer(caller.ScopeMaterialRequests), handle(requests.List))
	r.GET("/api/material-requests/:id", auth.Bearer(caller.ScopeMaterialRequests), handle(requests.Get))
	r.POST("/api/material-requests/:id/re-estimate", auth.Bearer(caller.ScopeMaterialRequests),
		handle(requests.Reestimate))
	r.PATCH("/api/material-requests/:id/selected-estimate", auth.Bearer(caller.ScopeMaterialRequests),
		handle(requests.Select))
	// by signature or Bearer
	r.POST("/api/material-requests/:id/delivery-estimates",
		httpapi.HandleWith(requests.ReceiveEstimates, supplierauth.RenderBearerError))
	r.GET("/orders", auth.Bearer(caller.ScopeOrdersRead), handle(requests.Orders))

	r.GET("/watch/devices/trackers", a.Trackers.ClientKey(), handle(a.Trackers.List))
	r.GET("/watch/devices/trackers/snapshot", a.Trackers.ClientKey(), handle(a.Trackers.Snapshot))

	r.POST(scoreboardRoute, httpapi.HandleWith(a.Scores.Show, scoreboard.RenderError))
	r.NoMethod(a.Scores.MethodNotAllowed(scoreboardRoute, httpapi.MethodNotAllowed))

	r.POST("/api/products/sync", auth.Bearer(caller.ScopeProducts), handle(catalogue.Sync))

	own := a.portal.APISession(caller.ScopeWebhooks) // by access token or portal session
	r.GET("/api/webhook-deliveries", own, handle(a.Sent.ListDeliveries))
	r.GET("/api/webhook-deliveries/:id", own, handle(a.Sent.ShowDelivery))
	r.POST("/api/webhook-deliveries/:id/redeliver", did("delivery.redeliver"), own, handle(a.Sent.RedeliverDelivery))
	r.POST("/api/webhook-deliveries/redeliver", did("delivery.redeliver"), own, httpapi.Long,
		handle(a.Sent.RecoverDeliveries))
	r.GET("/api/webhook-receiver", own, handle(a.Receivers.ShowReceiver))
	r.PUT("/api/webhook-receiver", did("receiver.set"), own, handle(a.Receivers.PutReceiver))
	r.DELETE("/api/webhook-receiver", did("receiver.remove"), own, handle(a.Receivers.DeleteReceiver))
	r.POST("/api/webhook-receiver/rotate-secret", did("receiver.rotate-secret"), own,
		handle(a.Receivers.RotateReceiverSecret))
	r.POST("/api/webhook-receiver/pause", did("receiver.pause"), own, handle(a.Receivers.PauseReceiver))
	r.POST("/api/webhook-receiver/resume", did("receiver.resume"), own, handle(a.Receivers.ResumeReceiver))
	r.POST("/api/webhook-receiver/test", own, httpapi.Long, handle(a.Receivers.TestReceiver))
	r.GET("/api/webhook-event-types", own, handle(a.Receivers.EventTypes))

	r.POST("/api/portal-sessions", did("portal.link"), auth.Bearer(caller.ScopeWebhooks),
		httpapi.HandleWith(a.portal.CreateLink, supplierauth.RenderBearerError))
	a.portalRoutes(r)
}

// audited begins a route that changes a supplier's access or receiver; the action is what the log calls it.
func (a *App) audited(action string) gin.HandlerFunc { return httpapi.Audited(a.log, action) }

// portalRoutes are the pages of the suppliers' portal and what their buttons do.
func (a *App) portalRoutes(r *gin.Engine) {
	p, did := a.portal, a.audited
	p.Routes(r)
	r.NoRoute(p.NotFound(httpapi.Handle(httpapi.NotFound)))
	r.GET(portal.Base+"/sign-in", p.SwitchLanguage, did("portal.sign-in"), p.Page(p.SignIn))
	r.POST(portal.Base+"/sign-in", did("portal.sign-in"), p.Page(p.ConfirmSignIn))
	pages, in := r.Group(portal.Base, p.SwitchLanguage), p.PageSession("")
	requests, own := p.PageSession(caller.ScopeMaterialRequests), p.PageSession(caller.ScopeWebhooks)
	pages.GET("", in, p.Page(p.Overview))
	pages.POST("/sign-out", did("portal.sign-out"), in, p.Page(p.SignOut))
	pages.GET("/requests", requests, p.Page(p.ShowRequests))
	pages.GET("/requests/:id", requests, p.Page(p.ShowRequest))
	pages.POST("/requests/:id/choose", requests, p.Page(p.ChooseEstimate))
	pages.POST("/requests/:id/re-estimate", requests, p.Page(p.EstimateAgain))
	pages.GET("/deliveries", own, p.Page(p.ShowDeliveries))
	pages.GET("/deliveries/:id", own, p.Page(p.ShowDelivery))
	pages.POST("/deliveries/:id/redeliver", did("delivery.redeliver"), own, p.Page(p.Redeliver))
	pages.POST("/deliveries/redeliver", did("delivery.redeliver"), own, httpapi.Long, p.Page(p.Recover))
	pages.GET("/receiver", own, p.Page(p.ShowReceiver))
	pages.POST("/receiver", did("receiver.set"), own, p.Page(p.SaveReceiver))
	pages.POST("/receiver/remove", did("receiver.remove"), own, p.Page(p.RemoveReceiver))
	pages.POST("/receiver/rotate-secret", did("receiver.rotate-secret"), own, p.Page(p.RotateSecret))
	pages.POST("/receiver/pause", did("receiver.pause"), own, p.Page(p.PauseReceiver))
	pages.POST("/receiver/resume", did("receiver.resume"), own, p.Page(p.ResumeReceiver))
	pages.POST("/receiver/test", own, httpapi.Long, p.Page(p.SendTest))
}

// consoleRoutes are the console's pages, the same as JSON, and its actions.
func (a *App) consoleRoutes(r *gin.Engine, c *console.Service) {
	did := a.audited
	c.Routes(r)
	for _, view := range c.Views() {
		r.GET(console.Base+view.Path, c.SwitchLanguage, c.Page(view))
		r.GET(console.Base+"/api"+view.API(), c.JSON(view))
	}
	r.POST(console.Base+"/token", did("console.sign-in"), c.Act(c.EnterToken))
	r.POST(console.Base+"/sign-out", did("console.sign-out"), c.Act(c.SignOut))
	r.POST(console.Base+"/deliveries/redeliver", did("delivery.redeliver"), c.Operator, c.Act(c.Redeliver))
	r.POST(console.Base+"/requests/reopen", did("request.reopen"), c.Operator, c.Act(c.Reopen))
	r.POST(console.Base+"/receivers/pause", did("receiver.pause"), c.Operator, c.Act(c.Pause))
	r.POST(console.Base+"/receivers/resume", did("receiver.resume"), c.Operator, c.Act(c.Resume))
	r.POST(console.Base+"/suppliers/activate", did("supplier.activate"), c.Operator, c.Act(c.Activate))
	r.POST(console.Base+"/suppliers/deactivate", did("supplier.deactivate"), c.Operator, c.Act(c.Deactivate))
	r.POST(console.Base+"/suppliers/portal-link", did("portal.link"), c.Operator, c.Act(c.PortalLink))
	r.POST(console.Base+"/suppliers/create", did("supplier.create"), c.Operator, c.Act(c.CreateSupplier))
	r.POST(console.Base+"/suppliers/rotate-key", did("supplier.rotate-key"), c.Operator, c.Act(c.RotateKey))
	r.POST(console.Base+"/suppliers/rotate-secret", did("receiver.rotate-secret"), c.Operator, c.Act(c.RotateSecret))
	r.POST(console.Base+"/suppliers/concurrency", did("supplier.update"), c.Operator, c.Act(c.SetConcurrency))
	r.POST(console.Base+"/rates/set", did("rate.set"), c.Operator, c.Act(c.SetRate))
	r.POST(console.Base+"/rates/remove", did("rate.remove"), c.Operator, c.Act(c.RemoveRate))
	r.POST(console.Base+"/scoreboard/set", did("settings.set"), c.Operator, c.Act(c.Set))
}
