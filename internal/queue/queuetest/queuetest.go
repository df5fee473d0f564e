// Package queuetest runs a real NATS server in the test process, to be stopped, restarted and wiped.
package queuetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	startTimeout = 30 * time.Second
	idleTimeout  = time.Second
)

// Password is every user's on a server that NewWithConfig started.
const Password = "of-a-test"

// Server is a NATS server with JetStream on a port of its own, which it keeps over restarts.
type Server struct {
	tb     testing.TB
	dir    string
	port   int
	config string // a file, or empty
	change func(*server.Options)
	server *server.Server // nil while stopped
}

// New starts a server; it is stopped at the end of the test.
func New(tb testing.TB) *Server {
	tb.Helper()
	return NewIn(tb, tb.TempDir())
}

// NewIn starts a server that keeps its files in dir.
func NewIn(tb testing.TB, dir string) *Server {
	tb.Helper()
	s := &Server{tb: tb, dir: dir, port: FreePort(tb)}
	s.start()
	tb.Cleanup(s.Stop)
	return s
}

// NewWithOptions starts a server whose options are changed first.
func NewWithOptions(tb testing.TB, change func(*server.Options)) *Server {
	tb.Helper()
	s := &Server{tb: tb, dir: tb.TempDir(), port: FreePort(tb), change: change}
	s.start()
	tb.Cleanup(s.Stop)
	return s
}

// NewWithConfig starts a server by a configuration file, whose variables for the passwords of users are
// SUPPLYHUB_<user>_PASSWORD.
func NewWithConfig(tb testing.TB, file string, users ...string) *Server {
	tb.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var passwords string
	for _, user := range users {
		passwords += fmt.Sprintf("SUPPLYHUB_%s_PASSWORD: %q\n", strings.ToUpper(user), Password)
	}
	s := &Server{tb: tb, dir: tb.TempDir(), port: FreePort(tb), config: filepath.Join(tb.TempDir(), "users.conf")}
	if err := os.WriteFile(s.config, append([]byte(passwords), content...), 0o600); err != nil {
		tb.Fatal(err)
	}
	s.start()
	tb.Cleanup(s.Stop)
	return s
}

// URLOf is URL for one of the users.
func (s *Server) URLOf(user string) string {
	return fmt.Sprintf("nats://%s:%s@127.0.0.1:%d", user, Password, s.port)
}

// URL returns the server's address, also while it is stopped.
func (s *Server) URL() string {
	return fmt.Sprintf("nats://127.0.0.1:%d", s.port)
}

// Stop ends the server; its store stays. Nothing happens when it is stopped already.
func (s *Server) Stop() {
	if s.server == nil {
		return
	}
	for deadline := time.Now().Add(idleTimeout); s.busy() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	s.server.Shutdown()
	s.server.WaitForShutdown()
	s.server = nil
}

// busy reports whether requests are being answered; a server that is shut down within them may panic.
func (s *Server) busy() bool {
	info, err := s.server.Jsz(nil)
	return err == nil && info.API.Inflight > 0
}

// Restart stops the server and starts it on the same store.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	s.start()
}

// Wipe stops the server, deletes its whole store and starts it again.
func (s *Server) Wipe() {
	s.tb.Helper()
	s.Stop()
	if err := os.RemoveAll(s.dir); err != nil {
		s.tb.Fatal(err)
	}
	s.start()
}

func (s *Server) start() {
	s.tb.Helper()
	options := &server.Options{}
	if s.config != "" {
		if err := options.ProcessConfigFile(s.config); err != nil {
			s.tb.Fatal(err)
		}
	}
	options.Host, options.Port, options.StoreDir = "127.0.0.1", s.port, s.dir
	options.JetStream, options.NoSigs, options.NoLog = true, true, true
	if s.change != nil {
		s.change(options)
	}
	ns, err := server.NewServer(options)
	if err != nil {
		s.tb.Fatal(err)
	}
	ns.Start()
	if !ns.ReadyForConnections(startTimeout) {
		ns.Shutdown()
		s.tb.Fatalf("the NATS server was not ready after %s", startTimeout)
	}
	s.server = ns
}
