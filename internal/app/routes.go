package app

import (
	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// routes is the table of contents of the service: method, path, who may call, handler. Nothing else stands here.
func (a *App) routes(r *gin.Engine) {
	auth, handle, docs := a.Suppliers, httpapi.Handle, httpapi.Docs(telemetry.Version())
	authErrors := func(h httpapi.Handler) gin.HandlerFunc { return httpapi.HandleWith(h, supplierauth.RenderError) }

	r.POST("/api/external-auth/token", authErrors(auth.Token))
	r.POST("/api/external-auth/refresh", authErrors(auth.Refresh))
	r.POST("/api/external-auth/revoke", authErrors(auth.Revoke))
	r.GET("/api/external/ping", auth.Bearer(""), handle(auth.Ping))
	r.GET("/.well-known/jwks.json", handle(auth.JWKS))
	r.GET("/", handle(httpapi.Home))
	r.GET("/openapi.json", handle(httpapi.OpenAPI(telemetry.Version())))
	r.GET("/docs", handle(docs))
	r.GET("/docs/:file", handle(docs))

	r.POST("/api/material-requests", auth.Bearer(supplierauth.ScopeMaterialRequests), handle(a.materials.Create))
	r.GET("/api/material-requests", auth.Bearer(supplierauth.ScopeMaterialRequests), handle(a.materials.List))
	r.GET("/api/material-requests/:id", auth.Bearer(supplierauth.ScopeMaterialRequests), handle(a.materials.Get))
	r.POST("/api/material-requests/:id/re-estimate", auth.Bearer(supplierauth.ScopeMaterialRequests), handle(a.materials.Reestimate))
	r.PATCH("/api/material-requests/:id/selected-estimate", auth.Bearer(supplierauth.ScopeMaterialRequests), handle(a.materials.Select))
	r.POST("/api/material-requests/:id/delivery-estimates", httpapi.HandleWith(a.materials.ReceiveEstimates, supplierauth.RenderBearerError)) // by signature or Bearer
	r.GET("/orders", auth.Bearer(supplierauth.ScopeOrdersRead), handle(a.materials.Orders))

	r.GET("/watch/devices/trackers", a.Trackers.ClientKey(), handle(a.Trackers.List))
	r.GET("/watch/devices/trackers/snapshot", a.Trackers.ClientKey(), handle(a.Trackers.Snapshot))

	r.POST("/pulse/scoreboard", httpapi.HandleWith(a.Scores.Show, scoreboard.RenderError))

	r.POST("/api/products/sync", auth.Bearer(supplierauth.ScopeProducts), handle(a.products.Sync))
}
