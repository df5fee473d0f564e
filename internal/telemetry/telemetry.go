// Package telemetry holds what operators see of a process: its log, its metrics, its version and the admin listener
// that serves them. Package app hands the logger and the registry to the features, which do not import this package.
package telemetry

import (
	"cmp"
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewLogger returns a logger that writes to w. It writes lines of the given level and above: debug, info, warn or
// error; any other text means info. Each line has the attributes of logctx. The format is text or json; if it is empty,
// a terminal gets text and anything else gets JSON. JSON lines name the version, because one system may collect the
// logs of many processes.
func NewLogger(w io.Writer, format, level string, terminal bool) *slog.Logger {
	var least slog.Level
	if least.UnmarshalText([]byte(level)) != nil {
		least = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: least}
	if format == "text" || format == "" && terminal {
		return slog.New(newHandler(slog.NewTextHandler(w, options)))
	}
	options.ReplaceAttr = durationsInSeconds
	return slog.New(newHandler(slog.NewJSONHandler(w, options))).With("version", Version())
}

// durationsInSeconds writes durations as seconds, which log readers expect; slog would write nanoseconds.
func durationsInSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	}
	return a
}

// NewRegistry returns a Prometheus registry with the collectors of the Go runtime, the process and the build.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "supplyhub_build_info", Help: "Always 1; the version is a label.",
		ConstLabels: prometheus.Labels{"version": Version()},
	})
	build.Set(1)
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build)
	return registry
}

// version is set by the linker: -ldflags "-X github.com/supplyhub/supplyhub/internal/telemetry.version=v1.2.3".
var version string

// Version returns the version that the linker set, else the tag or commit that the Go command stamped, else "devel".
func Version() string {
	stamped := ""
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		stamped = info.Main.Version
	}
	return cmp.Or(version, stamped, "devel")
}
