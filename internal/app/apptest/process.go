package apptest

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// Process is one running binary.
type Process struct {
	Name    string
	tb      testing.TB
	hub     *Hub
	extra   map[string]string
	cmd     *exec.Cmd
	exited  chan struct{}
	started chan struct{}
	mu      sync.Mutex
	address string
	admin   string
	log     strings.Builder
}

// Run starts cmd/<name> with the hub's environment and extra, and waits until it is ready.
func (h *Hub) Run(name string, extra map[string]string) *Process {
	h.tb.Helper()
	p := &Process{Name: name, tb: h.tb, hub: h, extra: extra}
	p.start()
	h.tb.Cleanup(p.cleanup)
	return p
}

// start starts the process. Only a supervised one that ends at once because it cannot reach the database is started
// again: elsewhere that is a fault of the service.
func (p *Process) start() {
	p.tb.Helper()
	for end := time.Now().Add(wait.Limit); !p.startOnce(); {
		unreached := strings.Contains("\n"+p.Log(), "\nerror: The database cannot be reached")
		if !p.hub.supervised || !unreached || time.Now().After(end) {
			p.tb.Fatalf("%s ended at its start:\n%s", p.Name, p.Log())
		}
	}
	wait.Until(p.tb, p.Name+" is ready", func() bool { return p.adminStatus("/readyz") == http.StatusOK })
}

// startOnce reports whether the process is running and has said where.
func (p *Process) startOnce() bool {
	p.tb.Helper()
	p.exited, p.started = make(chan struct{}), make(chan struct{})
	p.cmd = exec.Command(Binary(p.hub.tb, p.Name))
	p.cmd.Env = p.hub.environ(p.extra)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	logs, err := p.cmd.StderrPipe()
	if err != nil {
		p.tb.Fatal(err)
	}
	p.cmd.Stdout = io.Discard
	launched := make(chan error)
	go func() {
		runtime.LockOSThread() // the process is killed when the thread that started it ends: this one outlives it
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		if launched <- err; err == nil {
			p.follow(logs)
		}
	}()
	if err := <-launched; err != nil {
		p.tb.Fatal(err)
	}
	select {
	case <-p.started:
		return true
	case <-p.exited:
		return false
	case <-time.After(wait.Limit):
		p.tb.Fatalf("%s did not start in %v:\n%s", p.Name, wait.Limit, p.Log())
		return false
	}
}

// follow reads the log until the process ends; the line that names the addresses means it has started.
func (p *Process) follow(logs io.Reader) {
	once := sync.Once{}
	scanner := bufio.NewScanner(logs)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var line struct{ Msg, Address, Admin string }
		_ = json.Unmarshal(scanner.Bytes(), &line) // other lines are kept as text alone
		p.mu.Lock()
		p.log.WriteString(scanner.Text() + "\n")
		if line.Admin != "" {
			p.address, p.admin = line.Address, line.Admin
		}
		p.mu.Unlock()
		if line.Admin != "" {
			once.Do(func() { close(p.started) })
		}
	}
	_ = p.cmd.Wait() // the exit code is read from ProcessState
	close(p.exited)
}

// Address returns the public listener's host and port.
func (p *Process) Address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address
}

// AdminURL returns the address of path at the operator listener.
func (p *Process) AdminURL(path string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "http://" + p.admin + path
}

func (p *Process) adminStatus(path string) int {
	response, err := http.Get(p.AdminURL(path))
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// Log returns everything that the process has logged so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Fatalf("signal %s: %v", p.Name, err)
	}
}

// Kill ends the process at once, as kill -9 does, and waits until it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.exited
}

// Stop sends SIGTERM, waits for the end and returns the exit code.
func (p *Process) Stop() int {
	p.tb.Helper()
	p.Signal(syscall.SIGTERM)
	for took := Stopwatch(p.tb); took() < 35*time.Second; {
		select {
		case <-p.exited:
			return p.cmd.ProcessState.ExitCode()
		case <-time.After(time.Second):
		}
	}
	p.tb.Fatalf("%s did not end within 35 s of SIGTERM:\n%s", p.Name, p.Log())
	return 0
}

// Restart starts an ended process again, of the hub's release by then, at the same public address.
func (p *Process) Restart() {
	p.tb.Helper()
	if p.extra == nil {
		p.extra = map[string]string{}
	}
	if address := p.Address(); address != "" {
		p.extra["HTTP_ADDR"] = address
	}
	p.start()
}

func (p *Process) cleanup() {
	select {
	case <-p.exited:
	default:
		p.Kill()
	}
	if p.tb.Failed() {
		p.tb.Logf("warnings of %s:\n%s\nthe end of its log:\n%s", p.Name, tail(warnings(p.Log()), 8000), tail(p.Log(), 8000))
	}
	for _, bad := range []string{"DATA RACE", "panic:", "goroutine 1 [", "permission denied for", "ermissions violation"} {
		if strings.Contains(p.Log(), bad) {
			p.tb.Errorf("%s logged %q:\n%s", p.Name, bad, tail(p.Log(), 8000))
		}
	}
}

// warnings returns the lines of a log that an operator would look at first.
func warnings(log string) string {
	lines := slices.DeleteFunc(slices.Collect(strings.Lines(log)), func(line string) bool {
		return !strings.Contains(line, `"level":"WARN"`) && !strings.Contains(line, `"level":"ERROR"`)
	})
	return strings.Join(lines, "")
}

func tail(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return "…" + text[len(text)-n:]
}

// Stopwatch returns the time that has gone by since, as a machine with nothing else to do counts it: of a pause of
// 10 ms it counts no more, however late this process had its turn after it.
func Stopwatch(tb testing.TB) (took func() time.Duration) {
	tb.Helper()
	const pause = 10 * time.Millisecond
	var counted atomic.Int64
	ended := make(chan struct{})
	tb.Cleanup(func() { close(ended) })
	go func() {
		for {
			begin := time.Now()
			select {
			case <-ended:
				return
			case <-time.After(pause):
				counted.Add(int64(min(time.Since(begin), pause+pause/10)))
			}
		}
	}()
	return func() time.Duration { return time.Duration(counted.Load()) }
}
