package queuetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

const nodes = 3

// Cluster is three nats-server processes that replicate each other, to be killed, paused and wiped.
type Cluster struct {
	Nodes []*Node
}

// Node is one server process; it keeps its ports and its store over restarts.
type Node struct {
	tb     testing.TB
	dir    string
	port   int
	config string // with a place for more of JetStream's
	cmd    *exec.Cmd
	exited chan struct{}
}

// NewCluster starts three servers; they end with the test. Clients learn of no other address than the ones they know.
func NewCluster(tb testing.TB) *Cluster {
	tb.Helper()
	var ports [2 * nodes]int
	var routes []string
	for i := range ports {
		ports[i] = FreePort(tb)
		if i >= nodes {
			routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
		}
	}
	c := &Cluster{}
	for i := range nodes {
		n := &Node{tb: tb, dir: tb.TempDir(), port: ports[i]}
		n.config = fmt.Sprintf(`server_name: n%d
listen: "127.0.0.1:%d"
jetstream { store_dir: %q, %%s }
cluster { name: supplyhub, listen: "127.0.0.1:%d", no_advertise: true, routes: [%s] }
`, i, ports[i], filepath.Join(n.dir, "store"), ports[nodes+i], strings.Join(routes, ", "))
		n.Start(0)
		tb.Cleanup(n.Kill)
		c.Nodes = append(c.Nodes, n)
	}
	return c
}

// Address returns the node's host and port for clients.
func (n *Node) Address() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }

// Start starts an ended node, which may store quota bytes; 0: all that the disk has.
func (n *Node) Start(quota int64) {
	n.tb.Helper()
	file, limit := filepath.Join(n.dir, "nats.conf"), ""
	if quota > 0 {
		limit = fmt.Sprintf("max_file_store: %d", quota)
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, n.config, limit), 0o600); err != nil {
		n.tb.Fatal(err)
	}
	n.cmd = exec.Command(serverBinary(n.tb), "-c", file, "-l", filepath.Join(n.dir, "log"))
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	n.exited = make(chan struct{})
	started := make(chan error)
	go func(cmd *exec.Cmd, exited chan struct{}) {
		runtime.LockOSThread() // the node is killed when the thread that started it ends: this one outlives it
		defer runtime.UnlockOSThread()
		defer close(exited)
		err := cmd.Start()
		if started <- err; err == nil {
			_ = cmd.Wait()
		}
	}(n.cmd, n.exited)
	if err := <-started; err != nil {
		n.tb.Fatal(err)
	}
	listens := wait.Within(startTimeout, func() bool {
		conn, err := net.Dial("tcp", n.Address())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	if !listens {
		log, _ := os.ReadFile(filepath.Join(n.dir, "log"))
		n.tb.Fatalf("the NATS server does not listen:\n%s", log)
	}
}

// Kill ends the node at once, as kill -9 does. Nothing happens when it has ended already.
func (n *Node) Kill() { n.end(syscall.SIGKILL) }

// Stop ends the node as an operator does.
func (n *Node) Stop() { n.end(syscall.SIGTERM) }

func (n *Node) end(s os.Signal) {
	n.Signal(s)
	<-n.exited
}

// Signal sends a signal.
func (n *Node) Signal(s os.Signal) {
	if err := n.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.tb.Fatalf("signal the NATS server: %v", err)
	}
}

// Wipe deletes an ended node's whole store.
func (n *Node) Wipe() {
	n.tb.Helper()
	if err := os.RemoveAll(filepath.Join(n.dir, "store")); err != nil {
		n.tb.Fatal(err)
	}
}

// given are the ports that FreePort returned: nothing may listen on one of them yet.
var given sync.Map

// FreePort returns a port of the loopback on which nothing listens, each port once. It is none of those that systems
// give to outgoing connections and to who listens on port 0, so that it is still free when its user listens, and when
// that restarts.
func FreePort(tb testing.TB) int {
	tb.Helper()
	for range 100 {
		port := 20_000 + rand.IntN(12_000)
		if _, twice := given.LoadOrStore(port, true); twice {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	tb.Fatal("no port is free")
	return 0
}

func serverBinary(tb testing.TB) string {
	tb.Helper()
	path, err := builtServer()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// builtServer builds the server of go.mod's version once a process; the go command's cache makes it quick.
var builtServer = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(file), "..", "..", "..", "bin", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "nats-server")
	cmd := exec.Command("go", "build", "-o", path, "github.com/nats-io/nats-server/v2")
	cmd.Dir = filepath.Dir(file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build nats-server: %w\n%s", err, out)
	}
	return path, nil
})
