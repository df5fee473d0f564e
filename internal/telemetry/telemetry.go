// Package telemetry holds what operators see of a process: its log, its metrics, its version and the admin listener
// that serves them. Package app hands the logger and the registry to the features, which do not import this package.
package telemetry

import (
	"cmp"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"

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

// release is the version that this source is, or becomes when it is tagged.
const release = "v0.1.0"

// The linker sets them: -ldflags "-X github.com/supplyhub/supplyhub/internal/telemetry.version=v1.2.3".
var (
	version string // of a release: its tag
	commit  string // of a build by the Makefile, which knows it where the Go command is kept from asking
)

// Version returns the version that the linker set, else the one whose tag the Go command fetched or found, else the
// release and the commit: v0.1.0+0123456789ab, with .dirty behind it when the source was changed. Where no commit is
// known, as in an image that was built by hand, it is v0.1.0+devel.
func Version() string {
	module := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Version
	}
	return cmp.Or(version, versionOf(module, commit))
}

// versionOf takes the module's version as the Go command has it (v0.1.0, v0.0.0-20261127040544-0123456789ab+dirty,
// "(devel)" or none), and the commit that was linked in, if any.
func versionOf(module, revision string) string {
	stamped, changed, _ := strings.Cut(module, "+")
	if parts := strings.Split(stamped, "-"); revision == "" && len(parts) > 2 {
		revision = parts[len(parts)-1]
		if changed != "" {
			revision += ".dirty"
		}
	}
	if module == release || revision == "" && strings.HasPrefix(module, "v") {
		return module
	}
	return release + "+" + cmp.Or(revision, "devel")
}
