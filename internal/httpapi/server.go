package httpapi

import (
	"log/slog"
	"net/http"
	"time"
)

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
