package httpapi

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// EngineConfig is what NewEngine needs.
type EngineConfig struct {
	Log            *slog.Logger
	Registry       *prometheus.Registry // nil: nothing is exported
	Tracer         trace.TracerProvider // nil: nothing is traced
	HTTPS          bool                 // browsers come by https and shall go on doing so
	Ledger         *Ledger              // of what callers make the process hold; nil: one of its own
	TrustedProxies []string             // addresses or networks whose X-Forwarded-For is believed; none by default
}

// NewEngine returns a gin engine that answers unknown routes (404) and wrong methods (405) with problem documents
// before any middleware of a route, serves HEAD wherever GET is registered, and gives every request an id, a log line
// and its metrics.
func NewEngine(cfg EngineConfig) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.RedirectTrailingSlash = false
	engine.RedirectFixedPath = false
	engine.HandleMethodNotAllowed = true
	engine.UseRawPath = true // /a%2Fb is not /a/b: a proxy before us judges a path by its spelling
	engine.RemoteIPHeaders = []string{"X-Forwarded-For"}
	if err := engine.SetTrustedProxies(cfg.TrustedProxies); err != nil {
		cfg.Log.Error("trusted proxies are not understood, none is trusted", "error", err)
		_ = engine.SetTrustedProxies(nil) // cannot fail
	}
	o := newObserver(cfg.Log, cfg.Registry)
	engine.Use(serveHead(engine))
	scheme := "http"
	if cfg.HTTPS {
		scheme = "https"
	}
	if cfg.Tracer != nil {
		engine.Use(traced(cfg.Tracer, scheme))
	}
	if cfg.HTTPS {
		engine.Use(func(c *gin.Context) { c.Header("Strict-Transport-Security", "max-age=31536000") })
	}
	engine.Use(o.observe, o.recoverPanic, cmp.Or(cfg.Ledger, NewLedger(ample, ample)).middleware, straight)
	engine.NoRoute(Handle(NotFound))
	engine.NoMethod(MethodNotAllowed)
	return engine
}

// MethodNotAllowed answers a route that has other methods, which it names.
func MethodNotAllowed(c *gin.Context) {
	allowed := c.Writer.Header().Get("Allow")
	if strings.Contains(allowed, http.MethodGet) {
		allowed = strings.Replace(allowed, http.MethodGet, "GET, HEAD", 1)
		c.Header("Allow", allowed)
	}
	writeProblem(c, http.StatusMethodNotAllowed, "This resource takes "+allowed+".", nil)
}

// NotFound answers a path that has no route.
func NotFound(*gin.Context) error { return errs.New(errs.NotFound, "There is no such resource.") }

// NewServer returns an HTTP server with the limits that a public listener needs. Its own messages, such as those of
// broken connections, go to log as warnings.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:                      closeWhenAmbiguous(handler),
		ConnContext:                  withWire,
		ReadHeaderTimeout:            5 * time.Second,
		ReadTimeout:                  30 * time.Second,
		WriteTimeout:                 75 * time.Second, // a long poll of 60 s and its answer
		IdleTimeout:                  90 * time.Second,
		MaxHeaderBytes:               16 << 10, // none of our routes needs more; a stranger's connection holds as much
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
