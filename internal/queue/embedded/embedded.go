// Package embedded links the NATS server of the embedded default into a program that imports it; others connect to
// servers outside.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/queue"
)

func init() { queue.Embed(start) } //nolint:gochecknoinits // as drivers do: to import it is to link it

const (
	longestStart = 30 * time.Second // a large store is read first
	longestStop  = time.Second
	memoryStore  = 64 << 20
)

// embedded is a NATS server inside the process that listens nowhere.
type embedded struct {
	server *server.Server
	lock   *flock.Flock
}

// start starts the server over the files in dir, which one process at a time may use.
func start(dir string, maxBytes int64, log *slog.Logger) (_ queue.Server, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if !locked {
		return nil, fmt.Errorf("%s is in use by another process: stop that one, or use another directory", dir)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Unlock())
		}
	}()
	s, err := server.NewServer(&server.Options{
		ServerName:             "supplyhub",
		DontListen:             true,
		NoSigs:                 true,
		JetStream:              true,
		DisableJetStreamBanner: true,
		StoreDir:               dir,
		JetStreamMaxMemory:     memoryStore,
		JetStreamMaxStore:      2 * maxBytes, // reserved, not taken; twice, so that the limit met first is the stream's
	})
	if err != nil {
		return nil, fmt.Errorf("start the embedded queue: %w", err)
	}
	s.SetLoggerV2(serverLog{log.With("component", "nats")}, false, false, false)
	s.Start()
	if !s.ReadyForConnections(longestStart) {
		s.Shutdown()
		return nil, fmt.Errorf("start the embedded queue: not ready after %s", longestStart)
	}
	return &embedded{server: s, lock: lock}, nil
}

// InProcessConn returns a connection to the server.
func (e *embedded) InProcessConn() (net.Conn, error) { return e.server.InProcessConn() }

// Stop first lets the requests be answered that the server has taken in: while it shuts down it cannot answer any.
func (e *embedded) Stop() error {
	for deadline := time.Now().Add(longestStop); e.busy() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	e.server.Shutdown()
	e.server.WaitForShutdown()
	return e.lock.Unlock()
}

func (e *embedded) busy() bool {
	info, err := e.server.Jsz(nil)
	return err == nil && info.API.Inflight > 0
}

// serverLog puts the server's lines into ours. Its notices are of use only when looking for a fault.
type serverLog struct{ log *slog.Logger }

// trouble logs what the server's loops meet again and again, every 2 s while the disk is full. Its error has the log
// repeat the same text once a minute only.
func (l serverLog) trouble(level slog.Level, format string, v []any) {
	l.log.Log(context.Background(), level, "the queue's server has a fault and tries again by itself",
		"error", errs.New(errs.Unavailable, fmt.Sprintf(format, v...)))
}

func (l serverLog) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l serverLog) Warnf(format string, v ...any)   { l.trouble(slog.LevelWarn, format, v) }
func (l serverLog) Errorf(format string, v ...any)  { l.trouble(slog.LevelError, format, v) }
func (l serverLog) Fatalf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l serverLog) Debugf(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l serverLog) Tracef(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
